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

// Version is the version of this module. The context of each batch contains it.
const Version = client.Version

// These are the defaults of Config.
const (
	DefaultEndpoint        = client.Endpoint
	DefaultInterval        = 5 * time.Second
	DefaultBatchSize       = 250
	DefaultMaxRetries      = 10
	DefaultShutdownTimeout = 75 * time.Second
)

// Config configures a client. A field with the zero value uses its default.
type Config struct {
	// Endpoint is the collector's URL, http or https, without /v1/batch. Defaults to
	// DefaultEndpoint.
	Endpoint string

	// Interval is the time after which the client sends a batch even if it is not full.
	// It must not be negative. Defaults to DefaultInterval, 5 seconds.
	Interval time.Duration

	// Transport makes the requests. Each request has a timeout of 10 seconds, and
	// redirects are not followed. A Transport may enqueue messages, but must not close
	// the client. Defaults to a copy of http.DefaultTransport.
	Transport http.RoundTripper

	// Logger receives one line for each lost batch, and more with Verbose. The write key
	// is redacted. Defaults to standard error.
	Logger Logger

	// Callback receives the outcome of each message that passes Validate. Optional.
	Callback Callback

	// BatchSize is the maximum number of messages per batch. A batch is also limited to
	// 500 KB, 512,000 bytes. BatchSize must not be negative. Defaults to
	// DefaultBatchSize, 250.
	BatchSize int

	// Verbose logs each message and each attempt, including payloads. Setting the
	// environment variable DEBUG to analytics does the same. Defaults to false.
	Verbose bool

	// DefaultContext is the context of each batch, and applies to all its messages. The
	// client replaces its Library. NewWithConfig copies it. Defaults to an empty context.
	DefaultContext *Context

	// RetryAfter returns the delay before a batch is sent again. The argument is the number
	// of previous retries. A negative delay counts as 0. RetryAfter must return quickly and
	// must not close the client. If the collector sends a Retry-After header, the client uses
	// the header instead. The default delay starts at half a second and doubles up to a minute. A
	// random part of up to a quarter is subtracted.
	RetryAfter func(int) time.Duration

	// MaxRetries is the maximum number of retries of a batch. Retries requested by
	// Retry-After do not count. It must not be negative. Defaults to DefaultMaxRetries,
	// 10.
	MaxRetries int

	// MaxTotalBackoffDuration is the maximum time from a batch's first failure to its last
	// attempt. It must not be negative. Defaults to 12 hours.
	MaxTotalBackoffDuration time.Duration

	// MaxRateLimitDuration is the maximum time that a batch waits because of Retry-After
	// while the collector accepts no messages. It must not be negative. Defaults to 12
	// hours.
	MaxRateLimitDuration time.Duration

	// ShutdownTimeout is the maximum time that Close waits for deliveries. It must not be
	// negative. Defaults to DefaultShutdownTimeout, 75 seconds.
	ShutdownTimeout time.Duration
}

// withDefaults returns c with its defaults set, or a ConfigError.
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

// base returns the Config for the root package's client, without a Callback. The defaults of
// c must be set.
func (c *Config) base() client.Config {
	base := client.Config{
		Endpoint:    strings.TrimRight(c.Endpoint, "/") + "/v1/batch",
		FlushAt:     c.BatchSize,
		FlushAfter:  c.Interval,
		HTTPClient:  &http.Client{Transport: c.Transport},
		Context:     map[string]interface{}{}, // the client adds the entry library
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

// errorf logs an error. It recovers a panic in the Logger.
func (c *Config) errorf(format string, args ...interface{}) {
	defer func() { _ = recover() }()
	c.Logger.Errorf(format, args...)
}

// baseError converts an error of the root package about the endpoint or the context to a
// ConfigError. It returns an error about the write key unchanged.
func (c *Config) baseError(writeKey string, err error) error {
	if _, bad := client.NewWithConfig(writeKey, client.Config{}); bad != nil {
		return bad
	}
	if _, bad := client.NewWithConfig("key", client.Config{Endpoint: c.Endpoint}); bad != nil {
		return ConfigError{fmt.Sprint(bad), "Endpoint", c.Endpoint}
	}
	return ConfigError{fmt.Sprint(err), "DefaultContext", c.DefaultContext}
}
