//go:build unix

package live_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/screen"
)

// raceDetector is true if the race detector is enabled.
var raceDetector bool

// panics is a Source that panics.
type panics struct{}

func (panics) Activity(context.Context, string, int, bool) (live.Page, error) { panic("a mistake") }
func (panics) Replay(context.Context, live.Activity) (string, error)          { return "", errors.New("no") }
func (panics) Curl(context.Context, live.Activity) (string, error)            { return "", errors.New("no") }
func (panics) Destinations(context.Context) ([]live.Destination, error)       { return nil, errors.New("no") }
func (panics) Details(context.Context, live.Activity) (string, error)         { return "", errors.New("no") }

func TestPanicRestoresTheTerminal(t *testing.T) {
	if raceDetector {
		t.Skip("after a panic, Bubble Tea closes its input while that is being read: a race")
	}
	t.Setenv("TERM", "xterm-256color")
	keys, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(keys, &pty.Winsize{Cols: 80, Rows: 24}))
	seen, read := screen.New(80, 24), make(chan struct{})
	defer func() { assert.NoError(t, seen.Close()) }()
	go func() {
		_, _ = io.Copy(seen, keys) // until the terminal is closed
		close(read)
	}()
	before, err := term.GetState(tty.Fd())
	require.NoError(t, err)
	assert.Error(t, live.Show(t.Context(), live.Config{Source: panics{}, In: tty, Out: tty}))
	after, err := term.GetState(tty.Fd())
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.NoError(t, tty.Close())
	<-read
	require.NoError(t, keys.Close())
	assert.True(t, seen.Restored())
}
