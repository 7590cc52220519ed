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

// Size limits of the service.
const (
	MaxCallBytes  = 32768  // bytes of one call as JSON
	MaxBatchBytes = 512000 // bytes of one request body, before compression
)

// FullPolicy selects how a call is handled when the memory or the spool is full.
type FullPolicy int

const (
	Reject     FullPolicy = iota // the call returns ErrQueueFull
	Block                        // the call waits for room
	DropOldest                   // the oldest batch is dropped
)

// Config configures a pipeline. The client has validated the fields and set the defaults. Fields
// with the same name in the client's Config have the same meaning.
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

	WriteKey     string
	BatchContext []byte        // the part of each body between the last call and the batch ID
	Request      *http.Request // the parts that all requests share
	Transport    Transport
	Timeout      time.Duration // time limit of each attempt
	SourceURL    *url.URL      // URL of the source's settings; if nil, settings are not read
	Policy       retry.Policy

	Logger  *log.Logger // nil means DefaultLogger
	Slog    *slog.Logger
	Verbose bool

	Callback func(CallID, *Drop) // receives the result of each call; the Drop is nil if the call was delivered
	Values   bool                // calls have a Value
}

// Errors of Accept, which are also the client's errors.
var (
	ErrClosed    = errors.New("analytics: the client is closed")
	ErrQueueFull = errors.New("analytics: the queue is full: the collector is too slow or unavailable")
	ErrSpool     = errors.New("analytics: spool") // also wraps the error of the file system
)

// settings is a Config with derived values. All fields except policy are constant.
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

// keepsIDs reports whether batches contain the CallIDs of their calls.
func (s *settings) keepsIDs() bool { return s.Callback != nil || s.Values }

// NeedsIDs reports whether the callback, a transport or the log uses CallIDs.
func (s *settings) NeedsIDs() bool { return s.keepsIDs() || s.log.verbose }
