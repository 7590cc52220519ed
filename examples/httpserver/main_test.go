package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCallsOfARequestSurviveTheShutdown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var out strings.Builder
	done := make(chan error, 1)
	go func() { done <- run(ctx, &out, listener, "", "key") }()

	res, err := http.PostForm("http://"+listener.Addr().String()+"/signup", url.Values{"user": {"ada"}})
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	stop()
	require.NoError(t, <-done)
	assert.Contains(t, out.String(), `the collector received track "Signed Up" of ada`)
}
