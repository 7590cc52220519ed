package pipeline

import (
	"errors"
	"log"
	"log/slog"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
)

// Limits of the service.
const (
	MaxCallBytes  = 32768  // of one call as JSON
	MaxBatchBytes = 512000 // of one request's body, before compression
)

// FullPolicy selects the action when memory or the spool is full.
type FullPolicy int

const (
	Reject     FullPolicy = iota // the call returns ErrQueueFull
	Block                        // the call waits for room
	DropOldest                   // the oldest batch is dropped
)

// Config configures a pipeline. The client has validated the fields and set defaults. Fields
// that are also in the client's Config have the same meaning.
type Config struct {
	FlushAt       int
	FlushAfter    time.Duration
	MaxInFlight   int
	MaxBytes      int64
	WhenFull      FullPolicy
	Spool         string
	SpoolSync     bool
	SpoolMaxBytes int64
	Gzip          bool

	WriteKey  string
	Middle    []byte        // of each body: from the last call to the batch ID
	Request   *http.Request // the common parts of all requests
	Transport Transport
	Timeout   time.Duration // for each attempt
	SourceURL *url.URL      // of the source's settings; nil to not read them
	Policy    retry.Policy

	Logger  *log.Logger // nil means DefaultLogger
	Slog    *slog.Logger
	Verbose bool

	Callback func(CallID, *Drop) // receives the result of each call; the Drop is nil after delivery
	Values   bool                // Call.Value is used
}

// Errors of Accept, which are also the client's errors.
var (
	ErrClosed    = errors.New("analytics: the client is closed")
	ErrQueueFull = errors.New("analytics: the queue is full: the collector is too slow or unavailable")
	ErrSpool     = errors.New("analytics: spool") // wrapped with the error of the file system
)

// settings is a Config with derived values. Only policy changes.
type settings struct {
	Config
	log    *logger
	policy atomic.Pointer[retry.Policy] // replaced after the source's settings have been read
}

func newSettings(config Config) *settings {
	s := &settings{Config: config, log: newLogger(config.Logger, config.Slog, config.Verbose, config.WriteKey)}
	s.policy.Store(&s.Policy)
	return s
}

// keepsIDs reports whether batches contain the CallIDs of their calls.
func (s *settings) keepsIDs() bool { return s.Callback != nil || s.Values }

// NeedsIDs reports whether the callback, a transport or the log uses CallIDs.
func (s *settings) NeedsIDs() bool { return s.keepsIDs() || s.log.verbose }
