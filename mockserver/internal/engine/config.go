package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
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

// A Config says how a collector works. The zero value keeps everything in
// memory.
type Config struct {
	// Sources are those that may send. Defaults to none.
	Sources []tracking.Source
	// Destinations get the calls of the sources they are connected to. Defaults
	// to none.
	Destinations []tracking.Destination
	// AnyWriteKey takes calls with a write key that no source has, and makes the
	// source as it sees it, with the write key as its name. Defaults to false.
	AnyWriteKey bool
	// Strict answers 400 to a request that holds a bad call, names each of them,
	// and stores nothing of it. Defaults to false: the good calls are stored and
	// the bad ones recorded, and the answer is 200, as the service does.
	Strict bool
	// HTTPConfig is what the settings of each source say of retries, a JSON object:
	// integrations["Segment.io"].httpConfig at /v1/projects/{writeKey}/settings.
	// Defaults to none, as the service's.
	HTTPConfig json.RawMessage
	// Messages has New serve /messages: the calls that came since they were
	// drained last, as a JSON array. GET shows them; POST, or GET with the parameter
	// drain, drains them. Defaults to false.
	Messages bool
	// Limits are how much one request may hold. Default to those of the service.
	Limits tracking.Limits
	// DedupWindow is for how long a call that is sent again with the same
	// messageId is recognised. Defaults to 24 hours.
	DedupWindow time.Duration
	// DedupCalls bounds how many calls are remembered for that, at about 40 bytes
	// each. Defaults to 2,000,000.
	DedupCalls int
	// Seen yields the calls that the journal holds at the start, the newest limit of
	// them at least, oldest first: so they are recognised too. Defaults to none.
	Seen func(ctx context.Context, limit int, yield func(source, messageID string, at time.Time) bool) error
	// OnStored has f called with each call that is stored from then on by whoever shares
	// the journal. Defaults to none: nobody does.
	OnStored func(f func(source, messageID string))
	// Concurrency is how many calls of one destination may be under way at once.
	// Defaults to 64.
	Concurrency int
	// Sender says where webhooks may be and how they are reached.
	Sender webhook.SenderConfig
	// WrapTransport is put around what carries requests to webhooks, and may look at
	// them or answer in its place. Defaults to none.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// Journal keeps accepted calls. The collector closes it. Defaults to
	// journal.NewMemory.
	Journal journal.Journal
	// Shared says that other collectors share the Journal. Defaults to false.
	Shared bool
	// Store keeps the settings that are made while the collector runs. Defaults to
	// State.
	Store state.Store
	// State remembers deletion requests, audiences and computed traits, as durably
	// as Journal keeps calls. Defaults to state.NewMemory.
	State state.Store
	// Instance tells this collector from others that share its State. One that
	// comes back under its name goes on at once with what it was doing; another
	// takes over after 30 s. Defaults to a random name.
	Instance string
	// TempDir is where lists of users too long for memory are sorted. Defaults to
	// os.TempDir.
	TempDir string
	// History remembers the newest calls. Defaults to history.New(0).
	History *history.History
	// Restored is closed once History knows what earlier processes did. Defaults to a
	// channel that is: nobody tells it.
	Restored <-chan struct{}
	// Plans are the tracking plans of the sources. Defaults to none.
	Plans Plans
	// Observers are told what happens, before History. Default to none.
	Observers []event.Observer
	// IsHTTPS reports whether a request came by HTTPS, perhaps to a proxy before the
	// collector: browsers and apps are told to send their calls so, see [access.Guard.IsHTTPS].
	// Defaults to one that believes the header X-Forwarded-Proto of anyone.
	IsHTTPS func(*http.Request) bool
	// ClientOf returns the address that a request comes from, perhaps as a proxy before the
	// collector says, see [access.Guard.ClientOf]. Defaults to the other end of the connection.
	ClientOf func(*http.Request) netip.Addr
	// Jitter returns random numbers from 0 up to 1, the part of a delay before a call
	// that failed is attempted again: the delay is at most 1 s at first, doubles with
	// each attempt and stays at 10 min. It may be called from many goroutines at once.
	// Defaults to math/rand/v2.Float64.
	Jitter func() float64
	// Logger gets a line for what an operator should know. Defaults to
	// slog.DiscardHandler.
	Logger *slog.Logger

	// BatchCalls is how many of its own calls the collector stores at once. Defaults to
	// 500.
	BatchCalls int
}

// Plans hold calls against the tracking plans of their sources. Its methods are called
// from many goroutines at once.
type Plans interface {
	ingest.Judge
	// Quarantine returns why a call is kept out of every destination until the plan is
	// mended; empty where it is not. It is asked each time that a destination is about to
	// work at the call.
	Quarantine(c *tracking.Call) (reason string)
}

// Defaults of a Config.
const (
	DefaultDedupWindow = 24 * time.Hour
	DefaultDedupCalls  = 2_000_000
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
		c.ClientOf = otherEnd
	}
	if c.Journal == nil {
		c.Journal = journal.NewMemory(0)
	}
	if c.State == nil {
		c.State = state.NewMemory()
	}
	if c.Store == nil {
		c.Store = c.State
	}
	if c.Instance == "" {
		c.Instance = rand.Text()
	}
	if c.History == nil {
		c.History = history.New(0)
	}
	if c.Restored == nil {
		restored := make(chan struct{})
		close(restored)
		c.Restored = restored
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.DedupWindow <= 0 {
		c.DedupWindow = DefaultDedupWindow
	}
	if c.DedupCalls <= 0 {
		c.DedupCalls = DefaultDedupCalls
	}
	if c.Concurrency <= 0 {
		c.Concurrency = DefaultConcurrency
	}
	c.Limits = ingest.DefaultLimits(c.Limits)
	return c
}

// saysHTTPS reports whether a request came by HTTPS, or says that it came so to a proxy.
func saysHTTPS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// otherEnd returns the address at the other end of the connection.
func otherEnd(r *http.Request) netip.Addr {
	end, _ := netip.ParseAddrPort(r.RemoteAddr)
	return end.Addr().Unmap()
}

// checkHTTPConfig returns what is wrong with an HTTPConfig.
func checkHTTPConfig(raw json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); raw != nil && (err != nil || object == nil) {
		return fmt.Errorf(`mockserver: HTTPConfig is %.100q; it must be a JSON object such as {"backoffConfig":{"maxRetryCount":3}}`, raw)
	}
	return nil
}
