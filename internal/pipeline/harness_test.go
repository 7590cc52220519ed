package pipeline

import (
	"cmp"
	"context"
	"io"
	"log"
	"net/http"
	"net/url"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
)

const batchContext = `],"context":{},"messageId":"`

// complete sets the required fields that are missing in a Config.
func complete(t *testing.T, config Config, transport http.RoundTripper) Config {
	t.Helper()
	made, err := NewTransport(http.Client{Transport: transport}, 4, nil)
	require.NoError(t, err)
	config.FlushAt = cmp.Or(config.FlushAt, 20)
	config.FlushAfter = 5 * time.Second
	config.MaxInFlight = cmp.Or(config.MaxInFlight, 4)
	config.MaxBytes = cmp.Or(config.MaxBytes, 32<<20)
	config.SpoolMaxBytes = cmp.Or(config.SpoolMaxBytes, 1<<30)
	config.WriteKey = "key"
	config.BatchContext = []byte(batchContext)
	config.Request = &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "collector"}, Header: http.Header{}}
	if config.Gzip {
		config.Request.Header.Set("Content-Encoding", "gzip")
	}
	config.Transport = made
	config.Timeout = 10 * time.Second
	config.Policy = retry.Policy{Attempts: retry.DefaultAttempts, Persist: true, Backoff: retry.DefaultBackoff(), MaxBackoff: retry.DefaultMaxBackoff, MaxRateLimit: retry.DefaultMaxRateLimit}
	config.Logger = log.New(io.Discard, "", 0)
	return config
}

// newTestPipeline returns a pipeline that is not started.
func newTestPipeline(t *testing.T, config Config) *Pipeline {
	t.Helper()
	return newPipeline(complete(t, config, nil))
}

// startTestPipeline starts a pipeline that uses the given transport.
func startTestPipeline(t *testing.T, config Config, transport http.RoundTripper) *Pipeline {
	t.Helper()
	p, err := Open(complete(t, config, transport))
	require.NoError(t, err)
	p.Start()
	return p
}

// accept passes an encoded call to the pipeline.
func accept(p *Pipeline, encoded string) error {
	c := NewCall()
	defer c.Release()
	buf, _ := c.Begin()
	c.End(append(buf, encoded...))
	return p.Accept(context.Background(), c)
}

// canceled returns a context that is already canceled.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// silent is a transport that never responds.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// answering is a transport that responds to each request with the same status.
type answering int

func (status answering) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: int(status), Body: http.NoBody, Request: r}, err
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
