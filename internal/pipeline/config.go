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

// FullPolicy decides about a call when memory, or the spool, is full.
type FullPolicy int

const (
	Reject     FullPolicy = iota // the call returns ErrQueueFull
	Block                        // the call waits for room
	DropOldest                   // the oldest batch is dropped
)

// Config configures a pipeline. The client has validated all fields and set defaults. A
// field with the name of a field of the client's Config has the same meaning.
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
	Middle    []byte        // of each body: from the last call to the id of the batch
	Request   *http.Request // what all requests have in common
	Transport Transport
	Timeout   time.Duration // of one attempt
	SourceURL *url.URL      // of the source's settings; nil if they are not read
	Policy    retry.Policy

	Logger  *log.Logger // nil for DefaultLogger
	Slog    *slog.Logger
	Verbose bool

	Callback func(CallID, *Drop) // called for the end of each call; the Drop is nil after delivery
	Values   bool                // Call.Value is in use
}

// The errors of Accept. They are the client's errors of the same names.
var (
	ErrClosed    = errors.New("analytics: the client is closed")
	ErrQueueFull = errors.New("analytics: the queue is full: the collector does not keep up, or cannot be reached")
	ErrSpool     = errors.New("analytics: spool") // wrapped together with the error of the file system
)

// settings are a Config with derived values. Only policy changes.
type settings struct {
	Config
	log    *logger
	policy atomic.Pointer[retry.Policy] // replaced when the source's settings have been read
}

func newSettings(config Config) *settings {
	s := &settings{Config: config, log: newLogger(config.Logger, config.Slog, config.Verbose, config.WriteKey)}
	s.policy.Store(&s.Policy)
	return s
}

// keepsIDs reports whether batches keep the CallIDs of their calls.
func (s *settings) keepsIDs() bool { return s.Callback != nil || s.Values }

// NeedsIDs reports whether the callback, a transport or the log uses the CallID of calls.
func (s *settings) NeedsIDs() bool { return s.keepsIDs() || s.log.verbose }
