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

// A Config says how a [Server] works. The zero value takes any write key and forwards
// calls to no destination. Everything is kept in memory.
type Config struct {
	// Sources are those that may send. Defaults to none.
	Sources []tracking.Source
	// Destinations get the calls of the sources they are connected to. Defaults
	// to none.
	Destinations []tracking.Destination
	// AnyWriteKey takes calls with a write key that no source has, and makes the
	// source as it sees it, with the write key as its name. Defaults to true where
	// Sources is empty.
	AnyWriteKey bool
	// Strict answers 400 to a request that holds a bad call, names each of them,
	// and stores nothing of it. Defaults to false: the good calls are stored and
	// the bad ones recorded, and the answer is 200, as the service does.
	Strict bool
	// HTTPConfig is what the settings of each source say of retries: a JSON object with
	// rateLimitConfig, backoffConfig or both, which is served as it is, at
	// /v1/projects/{writeKey}/settings under integrations["Segment.io"].httpConfig. The
	// service's libraries for browsers and mobile devices read it, and a client whose
	// Config.SettingsEndpoint is the server's URL. Defaults to none.
	HTTPConfig json.RawMessage
	// InProcess makes the server listen nowhere: it is reached by its Transport
	// alone. Defaults to false.
	InProcess bool
	// Limits are how much one request may hold. Default to those of the service.
	Limits tracking.Limits
	// DedupWindow is for how long a call that is sent again with the same
	// messageId is recognised. Defaults to 24 hours.
	DedupWindow time.Duration
	// KeepCalls is how many calls a View shows, the newest. Defaults to 100,000.
	KeepCalls int
	// Sender says where webhooks may be and how they are reached. Those on the
	// loopback interface always may.
	Sender webhook.SenderConfig
	// Jitter returns random numbers from 0 up to 1, the part of a delay before a call
	// that failed is attempted again: the delay is at most 1 s at first, doubles with
	// each attempt and stays at 10 min. It may be called from many goroutines at once.
	// Defaults to math/rand/v2.Float64.
	Jitter func() float64
	// Logger gets a line for what an operator should know. Defaults to
	// slog.DiscardHandler.
	Logger *slog.Logger
}

// engine returns the configuration of the engine of a Server.
func (c Config) engine() engine.Config {
	c.Sender.Policy.AllowLoopback = true
	return engine.Config{
		Sources: c.Sources, Destinations: c.Destinations, AnyWriteKey: c.AnyWriteKey || len(c.Sources) == 0,
		Strict: c.Strict, HTTPConfig: c.HTTPConfig, Messages: true, Limits: c.Limits, DedupWindow: c.DedupWindow, History: history.New(c.KeepCalls),
		Sender: c.Sender, Jitter: c.Jitter, Logger: c.Logger,
	}
}
