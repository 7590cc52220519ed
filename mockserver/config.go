package mockserver

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Config configures a [Server]. The zero value accepts any write key, has no
// destinations and keeps everything in memory.
type Config struct {
	// Sources are the sources whose write keys the server accepts. Defaults to none.
	Sources []tracking.Source
	// Destinations receive the calls of the sources they are connected to. Defaults
	// to none.
	Destinations []tracking.Destination
	// AnyWriteKey accepts unknown write keys. The first call with such a key creates
	// a source named after it. Defaults to true if Sources is empty.
	AnyWriteKey bool
	// Strict rejects a request that contains an invalid call: the response is 400 and
	// names each invalid call, and nothing is stored. By default the valid calls are
	// stored, the invalid ones are recorded as rejected, and the response is 200, as
	// with the service.
	Strict bool
	// HTTPConfig contains the retry settings of every source: a JSON object with
	// rateLimitConfig, backoffConfig or both. The server returns it unchanged from
	// /v1/projects/{writeKey}/settings, under integrations["Segment.io"].httpConfig.
	// The service's browser and mobile libraries read it. A client also reads it if its
	// Config.SettingsEndpoint is the server's URL. Defaults to none.
	HTTPConfig json.RawMessage
	// InProcess starts the server without a listener: only its Transport reaches it.
	// Defaults to false.
	InProcess bool
	// Limits restrict the size of a request. Defaults to the service's limits.
	Limits tracking.Limits
	// DedupWindow is how long messageIds are retained for deduplication. Defaults to
	// 24 hours.
	DedupWindow time.Duration
	// KeepCalls is the number of calls a View retains, newest first. They use at most 256 MiB
	// of memory. Defaults to 100,000.
	KeepCalls int
	// Sender configures requests to webhooks. Webhooks on the loopback interface are
	// always allowed.
	Sender webhook.SenderConfig
	// RedactKey is the key of the hashes in redacted calls; see tracking.Redaction. It is required
	// if a source or a destination hashes values.
	RedactKey []byte
	// Transforms compiles the program of tracking.Destination.Transform. It is required if a
	// destination has a transform. For jq programs, use Compile of package mockserver/collector/jq.
	Transforms func(program string) (webhook.Transform, error)
	// Jitter returns a random number in [0, 1). Each retry delay is multiplied by such a
	// number. The delay before jitter starts at 1 s, doubles with each attempt and is
	// limited to 10 min. Jitter may be called concurrently. Defaults to
	// math/rand/v2.Float64.
	Jitter func() float64
	// Logger receives messages for operators. Defaults to slog.DiscardHandler.
	Logger *slog.Logger
}

func (c Config) engine() engine.Config {
	c.Sender.Policy.AllowLoopback = true
	return engine.Config{
		Sources: c.Sources, Destinations: c.Destinations, AnyWriteKey: c.AnyWriteKey || len(c.Sources) == 0,
		Strict: c.Strict, HTTPConfig: c.HTTPConfig, RedactKey: c.RedactKey, Transforms: c.Transforms, Messages: true, Limits: c.Limits, DedupWindow: c.DedupWindow, History: history.New(c.KeepCalls),
		Sender: c.Sender, Jitter: c.Jitter, Logger: c.Logger,
	}
}
