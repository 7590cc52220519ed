package network_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/nemesis/network"
)

func newNetwork(t *testing.T) (n *network.Network, a, b *network.Host) {
	t.Helper()
	if err := network.Supported(); err != nil {
		t.Skip(err)
	}
	n, err := network.New("a", "b")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, n.Close()) })
	return n, n.Host("a"), n.Host("b")
}

// reaches reports whether a program on a host gets a response from an address within the given number
// of seconds.
func reaches(t *testing.T, from *network.Host, address string, seconds int) bool {
	t.Helper()
	command := from.Command("bash", "-c", fmt.Sprintf(`timeout %d bash -c "cat </dev/tcp/$0/7" 2>/dev/null`, seconds), address)
	out, _ := exec.Command(command[0], command[1:]...).Output()
	return string(out) == "hello"
}

// serveOn starts a program on a host. The program responds to connections on port 7.
func serveOn(t *testing.T, h *network.Host) {
	t.Helper()
	l, err := h.Listen("7")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
}

func TestHostsReachEachOther(t *testing.T) {
	n, a, b := newNetwork(t)
	serveOn(t, b)
	assert.True(t, reaches(t, a, b.Address, 60))
	conn, err := net.DialTimeout("tcp", b.Address+":7", time.Minute)
	require.NoError(t, err, "this process reaches hosts")
	_ = conn.Close()

	n.Isolate(a)
	assert.False(t, reaches(t, a, b.Address, 3), "cut off")
	conn, err = net.DialTimeout("tcp", b.Address+":7", time.Minute)
	require.NoError(t, err, "this process still reaches hosts")
	_ = conn.Close()
	n.Heal()
	assert.True(t, reaches(t, a, b.Address, 60), "repaired")
	n.Cut(b, a)
	assert.False(t, reaches(t, a, b.Address, 3), "responses do not arrive")
}
