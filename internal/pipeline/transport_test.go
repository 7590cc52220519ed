package pipeline

import (
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func newTestTransport(t *testing.T, given http.Client, conns int) Transport {
	t.Helper()
	transport, err := NewTransport(given, conns, nil)
	require.NoError(t, err)
	return transport
}

func TestTransportIsOurs(t *testing.T) {
	got := newTestTransport(t, http.Client{}, 3)
	require.NotNil(t, got.own)
	require.NotSame(t, http.DefaultTransport, got.own)
	require.Equal(t, got.own, got.client.Transport)
	require.True(t, got.direct)
	require.Equal(t, 3, got.own.MaxIdleConnsPerHost)
	require.Equal(t, 200, newTestTransport(t, http.Client{}, 200).own.MaxIdleConns, "the default keeps 100")

	theirs := &http.Transport{}
	got = newTestTransport(t, http.Client{Transport: theirs}, 3)
	require.Nil(t, got.own)
	require.False(t, got.direct)
	require.Same(t, theirs, got.client.Transport)

	// The test replaces the default transport, as a program may do.
	old := http.DefaultTransport
	defer func() { http.DefaultTransport = old }()
	http.DefaultTransport = http.NewFileTransport(http.FS(os.DirFS(".")))
	got = newTestTransport(t, http.Client{}, 3)
	require.Nil(t, got.own)
	require.Nil(t, got.client.Transport)

	// The client must use Dial. If it set DialContext, that would override Dial.
	http.DefaultTransport = &http.Transport{Dial: net.Dial} //nolint:staticcheck // what programs still do
	require.Nil(t, newTestTransport(t, http.Client{}, 3).own.DialContext)
}
