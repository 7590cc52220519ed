package leaks

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSinceFindsLeaks(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // initializes package net before the check
	require.NoError(t, err)
	defer listener.Close()
	before := inUse()
	require.Empty(t, since(before))

	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		<-stop
		close(ended)
	}()
	left := since(before)
	require.Len(t, left, 1)
	require.Contains(t, left[0], "leaks.TestSinceFindsLeaks")
	close(stop)
	<-ended

	if runtime.GOOS == "linux" {
		path := filepath.Join(t.TempDir(), "open")
		file, err := os.Create(path)
		require.NoError(t, err)
		require.Contains(t, since(before), "file "+path)
		require.NoError(t, file.Close())
		require.NotContains(t, since(before), "file "+path)
	}
}

// recorder is a TB that records the reported errors.
type recorder struct {
	ends []func()
	said []string
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.ends = append(r.ends, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func TestCheckWaits(t *testing.T) {
	var r recorder
	Check(&r)
	stop := make(chan struct{})
	go func() { <-stop }()
	go close(stop)
	for _, end := range r.ends {
		end()
	}
	require.Empty(t, r.said)
}
