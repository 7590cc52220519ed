package analytics

import (
	"cmp"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	client "github.com/seed-45eadc4a/analytics-go"
)

// Version of the client: that of this module, which is in the context of each batch.
const Version = client.Version

// The defaults of a Config.
const (
	DefaultEndpoint        = client.Endpoint
	DefaultInterval        = 5 * time.Second
	DefaultBatchSize       = 250
	DefaultMaxRetries      = 10
	DefaultShutdownTimeout = 75 * time.Second
)

// Config configures a client. The zero value of each field means its default.
type Config struct {
	// Endpoint is the collector's URL, http or https, to which /v1/batch is appended.
	// Defaults to DefaultEndpoint.
	Endpoint string

	// Interval is how long after the last batch one is sent that is not full. It must
	// not be negative. Defaults to DefaultInterval, 5 seconds.
	Interval time.Duration

	// Transport makes the requests, each of which ends after 10 seconds. Redirects are
	// not followed. A Transport may enqueue messages, but must not close the client.
	// Defaults to a copy of http.DefaultTransport.
	Transport http.RoundTripper

	// Logger gets one line for each batch that is lost, and more with Verbose. The write
	// key is redacted. Defaults to standard error.
	Logger Logger

	// Callback is told the end of each message that Validate has nothing against.
	// Defaults to none.
	Callback Callback

	// BatchSize is how many messages make a batch; 1 sends each by itself. A batch is
	// also sent when the next message would take it over 500 KB, 512,000 bytes. It must
	// not be negative. Defaults to DefaultBatchSize, 250.
	BatchSize int

	// Verbose logs each message and each attempt, payloads included. So does the
	// environment variable DEBUG if it names analytics. Defaults to false.
	Verbose bool

	// DefaultContext is the context of each batch, which applies to each of its messages.
	// Its Library is ignored: the client puts its own there. It is read by NewWithConfig
	// and not changed. Defaults to an empty one.
	DefaultContext *Context

	// RetryAfter returns how long a batch waits before it is sent again, after a number
	// of retries, 0 for the first. What is negative counts as 0. The client waits for it:
	// it must return soon, and must not close the client. A collector that names a time by
	// Retry-After is heard instead. Defaults to half a second that doubles up to a minute,
	// each shortened at random by up to a quarter.
	RetryAfter func(int) time.Duration

	// MaxRetries is how often a batch is sent again before its messages are lost. A retry
	// for which the collector named a time does not count. It must not be negative.
	// Defaults to DefaultMaxRetries, 10.
	MaxRetries int

	// MaxTotalBackoffDuration is how long after its first failure a batch is sent for the
	// last time. It must not be negative. Defaults to 12 hours.
	MaxTotalBackoffDuration time.Duration

	// MaxRateLimitDuration is how long the collector may ask a batch to wait, by
	// Retry-After, while it takes no message at all. It must not be negative. Defaults to
	// 12 hours.
	MaxRateLimitDuration time.Duration

	// ShutdownTimeout is how long Close waits for messages to be delivered, at most. It
	// must not be negative. Defaults to DefaultShutdownTimeout, 75 seconds.
	ShutdownTimeout time.Duration
}

// withDefaults returns the Config with its defaults, or a ConfigError.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Interval < 0:
		return c, ConfigError{"negative time intervals are not supported", "Interval", c.Interval}
	case c.BatchSize < 0:
		return c, ConfigError{"negative batch sizes are not supported", "BatchSize", c.BatchSize}
	case c.MaxRetries < 0:
		return c, ConfigError{"negative retry counts are not supported", "MaxRetries", c.MaxRetries}
	case c.MaxTotalBackoffDuration < 0:
		return c, ConfigError{"negative durations are not supported", "MaxTotalBackoffDuration", c.MaxTotalBackoffDuration}
	case c.MaxRateLimitDuration < 0:
		return c, ConfigError{"negative durations are not supported", "MaxRateLimitDuration", c.MaxRateLimitDuration}
	case c.ShutdownTimeout < 0:
		return c, ConfigError{"negative shutdown timeouts are not supported", "ShutdownTimeout", c.ShutdownTimeout}
	}
	c.Endpoint = cmp.Or(c.Endpoint, DefaultEndpoint)
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	c.BatchSize = cmp.Or(c.BatchSize, DefaultBatchSize)
	c.MaxRetries = cmp.Or(c.MaxRetries, DefaultMaxRetries)
	c.ShutdownTimeout = cmp.Or(c.ShutdownTimeout, DefaultShutdownTimeout)
	if c.Logger == nil {
		c.Logger = StdLogger(log.New(os.Stderr, "analytics ", log.LstdFlags))
	}
	return c, nil
}

// base returns the Config of the root package's client, but for Callback. The Config has
// its defaults.
func (c *Config) base() client.Config {
	base := client.Config{
		Endpoint:    strings.TrimRight(c.Endpoint, "/") + "/v1/batch",
		FlushAt:     c.BatchSize,
		FlushAfter:  c.Interval,
		HTTPClient:  &http.Client{Transport: c.Transport},
		Context:     map[string]interface{}{}, // the client adds its library
		Slog:        slog.New(handler{slog.DiscardHandler, c.Logger}),
		Verbose:     c.Verbose,
		Backoff:     c.RetryAfter,
		MaxAttempts: min(c.MaxRetries, 1<<30) + 1,

		MaxTotalBackoffDuration: c.MaxTotalBackoffDuration,
		MaxRateLimitDuration:    c.MaxRateLimitDuration,
	}
	if c.DefaultContext != nil {
		c.DefaultContext.addTo(base.Context)
		delete(base.Context, "library")
	}
	return base
}

// errorf logs an error. A panic of the Logger is recovered.
func (c *Config) errorf(format string, args ...interface{}) {
	defer func() { _ = recover() }()
	c.Logger.Errorf(format, args...)
}

// refused returns the ConfigError for what the root package's client has against a
// Config: it is the endpoint, or the context.
func (c *Config) refused(err error) error {
	if _, bad := client.NewWithConfig("key", client.Config{Endpoint: c.Endpoint}); bad != nil {
		return ConfigError{fmt.Sprint(bad), "Endpoint", c.Endpoint}
	}
	return ConfigError{fmt.Sprint(err), "DefaultContext", c.DefaultContext}
}
