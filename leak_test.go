package analytics_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/leaks"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// ending is a way to close a client that has made calls.
type ending struct {
	name string
	end  func(t *testing.T, srv *mockserver.Server, client *analytics.Client)
}

// endings contains the ways to close a client. The collector responds in some of them and hangs in
// others.
var endings = []ending{
	{"Close", func(t *testing.T, _ *mockserver.Server, client *analytics.Client) {
		require.NoError(t, client.Close())
	}},
	{"Close twice, and a call", func(t *testing.T, _ *mockserver.Server, client *analytics.Client) {
		require.NoError(t, client.Close())
		require.NoError(t, client.Close())
		require.ErrorIs(t, client.Track(&analytics.Track{Event: "late", UserId: "u"}), analytics.ErrClosed)
	}},
	{"Flush and Close", func(t *testing.T, _ *mockserver.Server, client *analytics.Client) {
		require.NoError(t, client.Flush(t.Context()))
		require.NoError(t, client.Close())
	}},
	{"Close after failures", func(t *testing.T, srv *mockserver.Server, client *analytics.Client) {
		srv.Fail(mockserver.Fault{Status: http.StatusServiceUnavailable}, mockserver.Fault{Reset: true})
		require.NoError(t, client.Close())
	}},
	{"Shutdown with an ended context", func(t *testing.T, _ *mockserver.Server, client *analytics.Client) {
		shutdownAtOnce(t, client)
	}},
	{"Shutdown with an ended context while the collector hangs", func(t *testing.T, srv *mockserver.Server, client *analytics.Client) {
		hanging := make(chan struct{}, 100)
		srv.Fail(mockserver.Fault{Hang: true, Times: mockserver.Always, Match: func(*http.Request) bool {
			hanging <- struct{}{}
			return true
		}})
		for i := range 20 { // these calls fill a batch
			require.NoError(t, client.Track(&analytics.Track{Event: name("full", i), UserId: "u"}))
		}
		<-hanging
		shutdownAtOnce(t, client)
		srv.ClearFaults()
	}},
	{"Shutdown whose context ends during an outage", func(t *testing.T, srv *mockserver.Server, client *analytics.Client) {
		srv.Fail(mockserver.Fault{Status: http.StatusServiceUnavailable, Times: mockserver.Always})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, client.Shutdown(ctx), &undelivered)
	}},
}

// shutdownAtOnce closes a client with a context that is already done. The client may have delivered
// some calls before.
func shutdownAtOnce(t *testing.T, client *analytics.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Shutdown(ctx); err != nil {
		var undelivered *analytics.UndeliveredError
		require.ErrorAs(t, err, &undelivered)
	}
}

// settingsHang is the name of the configuration with a settings endpoint that never responds.
const settingsHang = "settings that do not come"

// Closing a client ends all its goroutines and closes its connections and files. The test
// combines each configuration with each way to close a client.
func TestClosingLeavesNothing(t *testing.T) {
	for _, with := range []struct {
		name   string
		config func(t *testing.T, srv *mockserver.Server) analytics.Config
	}{
		{"no options", func(*testing.T, *mockserver.Server) analytics.Config { return analytics.Config{} }},
		{"spool", func(t *testing.T, _ *mockserver.Server) analytics.Config {
			return analytics.Config{Spool: t.TempDir()}
		}},
		{"spool of another process, gzip", func(t *testing.T, _ *mockserver.Server) analytics.Config {
			dir := t.TempDir()
			leaveCalls(t, dir, "left", 5)
			return analytics.Config{Spool: dir, Gzip: true}
		}},
		{"callback, value", func(*testing.T, *mockserver.Server) analytics.Config {
			return analytics.Config{Callback: func(analytics.Result) {}, Value: func(context.Context) interface{} { return 1 }}
		}},
		{"callback that panics, slog", func(*testing.T, *mockserver.Server) analytics.Config {
			return analytics.Config{
				Callback: func(analytics.Result) { panic("the callback's own") },
				Slog:     slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelDebug})), Verbose: true,
			}
		}},
		{"settings", func(_ *testing.T, srv *mockserver.Server) analytics.Config {
			return analytics.Config{SettingsEndpoint: srv.URL}
		}},
		{settingsHang, func(t *testing.T, _ *mockserver.Server) analytics.Config {
			silent := serve(t, func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
				<-r.Context().Done()
				return false
			})
			return analytics.Config{SettingsEndpoint: silent.URL}
		}},
		{"wrapped transport", func(*testing.T, *mockserver.Server) analytics.Config {
			return analytics.Config{WrapTransport: func(next http.RoundTripper) http.RoundTripper { return firstFails{next} }}
		}},
		{"one call after the other", func(*testing.T, *mockserver.Server) analytics.Config {
			return analytics.Config{WhenFull: analytics.DropOldest, MaxInFlight: 1, FlushAt: 1}
		}},
	} {
		for _, way := range endings {
			if with.name == settingsHang && !strings.HasPrefix(way.name, "Shutdown") {
				continue // the first batch would wait two seconds for the settings
			}
			t.Run(with.name+"/"+way.name, func(t *testing.T) {
				quick(t)
				srv := mockserver.RunT(t)
				config := with.config(t, srv)
				leaks.Check(t) // the collector's goroutines are already running
				config.Endpoint, config.CloseTimeout = srv.URL, time.Minute
				if config.Logger == nil {
					config.Logger = new(lines).logger()
				}
				client, err := analytics.NewWithConfig("write-key-0123456789", config)
				require.NoError(t, err)
				track(t, client, "e", 30) // these calls fill one and a half batches
				way.end(t, srv, client)
			})
		}
	}
}

// firstFails is a transport that fails the first request that contains a batch.
type firstFails struct{ next http.RoundTripper }

func (f firstFails) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Retry-Count") == "" {
		_ = r.Body.Close()
		return nil, errors.New("a first attempt")
	}
	return f.next.RoundTrip(r)
}

// A client that cannot start leaves no goroutines, connections or files.
func TestClientsThatDoNotStartLeaveNothing(t *testing.T) {
	leaks.Check(t)
	dir := t.TempDir()
	holder := newClient(t, newDownCollector(), analytics.Config{Spool: dir})
	track(t, holder, "e", 1)

	for name, client := range map[string]*analytics.Client{
		"unused":         newClient(t, &collector{}, analytics.Config{}),
		"no write key":   analytics.New(""),
		"spool in use":   newClient(t, &collector{}, analytics.Config{Spool: dir}),
		"spool unusable": newClient(t, &collector{}, analytics.Config{Spool: "/dev/null/spool"}),
	} {
		if name != "unused" {
			require.Error(t, client.Track(&analytics.Track{Event: "e", UserId: "u"}), name)
		}
		_ = client.Flush(endedContext())
		_ = client.Stats()
		_ = client.Close()
	}
	require.Error(t, holder.Shutdown(endedContext()))
}
