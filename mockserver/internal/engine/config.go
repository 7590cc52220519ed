package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Config configures a Collector. The zero value stores everything in memory.
type Config struct {
	// Sources are the sources that may send calls.
	Sources []tracking.Source
	// Destinations get the calls of their sources.
	Destinations []tracking.Destination
	// AnyWriteKey accepts calls with unknown write keys, and creates sources with the write
	// key as the name. Defaults to false.
	AnyWriteKey bool
	// Strict rejects a request with any invalid call: the response is 400 and names each
	// invalid call, and nothing is stored. By default, as with the service, the response is
	// 200, valid calls are stored, and invalid calls are recorded as rejected.
	Strict bool
	// HTTPConfig is a JSON object with the retry settings of all sources. The response of
	// /v1/projects/{writeKey}/settings contains it as integrations["Segment.io"].httpConfig. By
	// default, as with the service, the response contains no retry settings.
	HTTPConfig json.RawMessage
	// Messages enables /messages, which serves the calls received since they were last drained,
	// as a JSON array. GET returns the calls. POST, or GET with the parameter drain, also drains
	// them. Defaults to false.
	Messages bool
	// RedactKey is the key of the hashes in redacted calls. It is required if a source or a
	// destination hashes values.
	RedactKey []byte
	// Transforms compiles the transforms of destinations. It is required if a destination has a transform.
	Transforms func(program string) (webhook.Transform, error)
	// Limits bounds requests. Defaults to the limits of the service.
	Limits tracking.Limits
	// DedupWindow is how long duplicates are detected by their messageId. Defaults to 24 hours.
	DedupWindow time.Duration
	// DedupCalls is the maximum number of calls in duplicate detection, at about 12 bytes
	// each. Defaults to 2,000,000.
	DedupCalls int
	// Seen yields the stored calls for duplicate detection: a source and the messageIds of some
	// of its calls. New calls it at startup. Seen must yield at least the newest limit calls
	// that were stored since a time, oldest first. Optional.
	Seen func(ctx context.Context, since time.Time, limit int, yield func(source string, messageIDs iter.Seq[string]) bool) error
	// OnStored registers a function. The function must be called for each call that a collector
	// with the same journal stores after the registration. Optional.
	OnStored func(f func(source, messageID string))
	// Concurrency is the maximum number of calls in flight per destination. Defaults to 64.
	Concurrency int
	// Sender configures the requests to webhooks.
	Sender webhook.SenderConfig
	// WrapTransport wraps the transport of requests to webhooks. Optional.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// Journal stores accepted calls. The collector closes it. Defaults to journal.NewMemory.
	Journal journal.Journal
	// Shared reports that other collectors use the same Journal. Defaults to false.
	Shared bool
	// Store contains the settings created at run time. Defaults to State.
	Store state.Store
	// State contains deletion requests, audiences and computed traits. It must be as durable as
	// Journal. Defaults to state.NewMemory.
	State state.Store
	// Instance identifies this collector among the collectors with the same State. A collector
	// that restarts with the same name resumes its background work immediately; other
	// collectors wait for 30 s. Defaults to a random name.
	Instance string
	// TempDir is the directory for sorting long lists of users. Defaults to os.TempDir.
	TempDir string
	// History retains the newest calls. Defaults to history.New(0).
	History *history.History
	// Restored is closed when History contains the results of earlier processes. Optional.
	Restored <-chan struct{}
	// Plans contains the tracking plans of the sources. Optional.
	Plans Plans
	// Observers receive events before History.
	Observers []event.Observer
	// IsHTTPS reports whether a client used HTTPS, possibly for its connection to a proxy; see
	// [access.Guard.IsHTTPS]. URLs in responses use the same protocol. By default, the header
	// X-Forwarded-Proto is trusted.
	IsHTTPS func(*http.Request) bool
	// ClientOf returns the address of the client, as reported by trusted proxies; see
	// [access.Guard.ClientOf]. Defaults to the address of the peer.
	ClientOf func(*http.Request) netip.Addr
	// Jitter returns random numbers in [0, 1). Each retry delay is the maximum delay multiplied
	// by such a number. The maximum is 1 s at first, doubles with each attempt, and is at most
	// 10 min. Jitter must be safe for concurrent use. Defaults to math/rand/v2.Float64.
	Jitter func() float64
	// Logger receives messages for operators. Defaults to slog.DiscardHandler.
	Logger *slog.Logger

	// BatchCalls is the maximum batch size of synthetic calls. Defaults to 500.
	BatchCalls int
}

// Plans checks calls against the tracking plans of their sources. Its methods must be safe for
// concurrent use.
type Plans interface {
	ingest.Judge
	// Quarantine returns the reason to keep a call from all destinations until the plan is
	// fixed, or "". It is called before each delivery of the call.
	Quarantine(c *tracking.Call) (reason string)
}

// Defaults of Config.
const (
	defaultDedupWindow = 24 * time.Hour
	defaultDedupCalls  = 2_000_000
	DefaultConcurrency = 64
)

func (c Config) withDefaults() Config {
	if c.Jitter == nil {
		c.Jitter = mathrand.Float64
	}
	if c.IsHTTPS == nil {
		c.IsHTTPS = saysHTTPS
	}
	if c.ClientOf == nil {
		c.ClientOf = peerAddr
	}
	if c.Journal == nil {
		c.Journal = journal.NewMemory(0)
	}
	if c.State == nil {
		c.State = state.NewMemory()
	}
	c.Store = cmp.Or(c.Store, c.State)
	c.Instance = cmp.Or(c.Instance, rand.Text())
	if c.History == nil {
		c.History = history.New(0)
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.DedupWindow = cmp.Or(max(c.DedupWindow, 0), defaultDedupWindow)
	c.DedupCalls = cmp.Or(max(c.DedupCalls, 0), defaultDedupCalls)
	c.Concurrency = cmp.Or(max(c.Concurrency, 0), DefaultConcurrency)
	c.Limits = ingest.DefaultLimits(c.Limits)
	return c
}

// saysHTTPS reports whether a request used HTTPS, or its header X-Forwarded-Proto is https.
func saysHTTPS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// peerAddr returns the address of the peer.
func peerAddr(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}

// checkHTTPConfig returns an error if an HTTPConfig is not a JSON object.
func checkHTTPConfig(raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); raw != nil && (err != nil || object == nil) {
		return fmt.Errorf(`mockserver: HTTPConfig is %.100q; it must be a JSON object such as {"backoffConfig":{"maxRetryCount":3}}`, raw)
	}
	return nil
}
