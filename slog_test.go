package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// records is a writer that collects the output of a slog.Handler.
type records struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (r *records) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(b)
}

// logger returns a logger that writes to r. It omits attributes that differ between runs.
func (r *records) logger(level slog.Leveler) *slog.Logger {
	return slog.New(traced{slog.NewJSONHandler(r, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "bytes" || a.Key == "duration" || a.Key == "call" {
			return slog.Attr{}
		}
		return a
	}})})
}

// traced is a handler that adds a value of the context to each record, like tracing libraries.
type traced struct{ slog.Handler }

type traceKey struct{}

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if id, ok := ctx.Value(traceKey{}).(string); ok {
		r.AddAttrs(slog.String("trace", id))
	}
	return h.Handler.Handle(ctx, r)
}

func (r *records) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// decoded returns the records.
func (r *records) decoded(t *testing.T) (all []map[string]any) {
	d := json.NewDecoder(strings.NewReader(r.String()))
	for {
		var record map[string]any
		if err := d.Decode(&record); err == io.EOF {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, record)
	}
}

// The level of an entry depends on whether calls were lost. Its message is a constant, with
// attributes.
func TestSlogLevelsAndAttributes(t *testing.T) {
	type record = map[string]any
	refused := "the collector responded with 400 Bad Request: no such plan"
	for _, tt := range []struct {
		name    string
		decide  func(i int, p post) answer
		calls   int
		verbose bool
		want    []record
	}{
		{name: "delivered", calls: 2},
		{
			name: "rejected for good", calls: 2,
			decide: func(int, post) answer { return answer{status: 401} },
			want: []record{
				{"level": "ERROR", "msg": "calls lost", "calls": 2., "reason": "refused", "attempts": 1., "status": 401., "error": "the collector responded with 401 Unauthorized: {\"success\":true}"},
			},
		},
		{
			name: "one of two calls refused", calls: 2,
			decide: func(_ int, p post) answer {
				for _, call := range p.body.Batch {
					if call["event"] == "e-001" {
						return answer{status: 400, body: strings.NewReader("no such plan")}
					}
				}
				return answer{}
			},
			want: []record{
				{"level": "WARN", "msg": "batch refused", "calls": 2., "status": 400., "error": refused},
				{"level": "ERROR", "msg": "calls lost", "calls": 1., "reason": "refused", "attempts": 1., "status": 400., "error": refused},
			},
		},
		{
			name: "an outage", calls: 1,
			decide: func(i int, _ post) answer {
				if i < 3 {
					return answer{err: errRefusedConn}
				}
				return answer{}
			},
			want: []record{
				{"level": "WARN", "msg": "collector is not taking calls", "status": 0., "error": `Post "https://api.segment.io/v1/batch": connection refused`},
				{"level": "INFO", "msg": "collector is taking calls again"},
			},
		},
		{
			name: "verbose", calls: 1, verbose: true,
			decide: func(i int, _ post) answer {
				if i == 0 {
					return answer{status: 503, body: strings.NewReader("")}
				}
				return answer{}
			},
			want: []record{
				{"level": "DEBUG", "msg": "call queued", "type": "track", "trace": "t-1"},
				{"level": "DEBUG", "msg": "attempt failed", "status": 503., "error": "the collector responded with 503 Service Unavailable"},
				{"level": "WARN", "msg": "collector is not taking calls", "status": 503., "error": "the collector responded with 503 Service Unavailable"},
				{"level": "DEBUG", "msg": "batch delivered", "status": 200.},
				{"level": "INFO", "msg": "collector is taking calls again"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log records
				var unused lines
				client := newClient(t, &collector{decide: tt.decide}, analytics.Config{
					Slog: log.logger(slog.LevelDebug), Logger: unused.logger(), Verbose: tt.verbose,
				})
				ctx := context.WithValue(t.Context(), traceKey{}, "t-1")
				for i := range tt.calls {
					require.NoError(t, client.Enqueue(ctx, &analytics.Track{Event: name("e", i), UserId: "u"}))
				}
				_ = client.Close()
				require.ElementsMatch(t, tt.want, log.decoded(t))
				require.Empty(t, unused.String(), "Slog takes the place of Logger")
			})
		})
	}
}

// The handler's level also applies to verbose entries. Without Verbose, payloads are not logged at
// any level.
func TestSlogLevelAndVerbose(t *testing.T) {
	for _, tt := range []struct {
		level   slog.Level
		verbose bool
		want    int
	}{{slog.LevelDebug, false, 0}, {slog.LevelInfo, true, 0}, {slog.LevelDebug, true, 2}} {
		var log records
		client := newClient(t, &collector{}, analytics.Config{Slog: log.logger(tt.level), Verbose: tt.verbose})
		track(t, client, "e", 1)
		require.NoError(t, client.Close())
		require.Len(t, log.decoded(t), tt.want, "%v %v", tt.level, tt.verbose)
	}
}

func TestSlogRedactsTheWriteKey(t *testing.T) {
	const key = "write-key-0123456789"
	var log records
	client := newClient(t, always(answer{status: 403, body: strings.NewReader("no source has " + key)}), analytics.Config{
		Slog: slog.New(slog.NewTextHandler(&log, nil)), Verbose: true, MaxAttempts: 1,
		Callback: func(analytics.Result) { panic(key) },
	})
	require.NoError(t, client.Track(&analytics.Track{Event: key, UserId: "u"}))
	require.Error(t, client.Close())
	require.Contains(t, log.String(), "wri***")
	require.NotContains(t, log.String(), key)
	require.Equal(t, 2, strings.Count(log.String(), "level=ERROR"), "%s", log.String())
}

// If a collector fails occasionally, the log reports the failures at most once per minute.
func TestSlogReportsOutageOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		c := &collector{decide: func(i int, _ post) answer { return answer{status: []int{503, 200}[i%2]} }}
		client := newClient(t, c, analytics.Config{Slog: log.logger(slog.LevelInfo), FlushAt: 1, MaxInFlight: 1})
		for i := range 100 {
			track(t, client, fmt.Sprint(i), 1)
			time.Sleep(2 * time.Second)
		}
		require.NoError(t, client.Close())
		require.Equal(t, 4, strings.Count(log.String(), "not taking calls"), "in 200 seconds")
		require.Equal(t, 4, strings.Count(log.String(), "taking calls again"))
	})
}

// The end of an outage is logged immediately, even if queued batches keep the sender busy.
func TestSlogReportsEndOfOutageBeforeQueuedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log records
		c := &collector{decide: func(i int, _ post) answer { return []answer{{status: 503}, {}, {hang: true}}[i] }}
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			res, err := c.RoundTrip(r)
			// The transport no longer reads the body, so the sender continues with the next batch.
			httptrace.ContextClientTrace(r.Context()).WroteRequest(httptrace.WroteRequestInfo{})
			return res, err
		})
		client := newClient(t, transport, analytics.Config{Slog: log.logger(slog.LevelInfo), FlushAt: 1, MaxInFlight: 1, CloseTimeout: time.Second})
		track(t, client, "e", 2)
		time.Sleep(time.Second) // the first retry is due
		synctest.Wait()
		logged := log.String()
		require.Error(t, client.Close())
		require.Len(t, c.all(), 3)
		require.Contains(t, logged, "collector is taking calls again")
	})
}

// Problems of a spool are logged as warnings that contain the directory.
func TestSlogSpool(t *testing.T) {
	dir := t.TempDir()
	other, err := analytics.NewWithConfig("another-key-0123456789", analytics.Config{Spool: dir, Endpoint: "http://127.0.0.1:1", CloseTimeout: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, other.Track(&analytics.Track{Event: "e", UserId: "u"}))
	require.Error(t, other.Close())
	var log records
	client := newClient(t, &collector{}, analytics.Config{Spool: dir, Slog: log.logger(slog.LevelInfo)})
	track(t, client, "e", 1)
	require.NoError(t, client.Close())
	require.Equal(t, []map[string]any{{
		"level": "WARN", "msg": "the spool contains files of another write key", "files": 1., "dir": dir,
	}}, log.decoded(t))
}
