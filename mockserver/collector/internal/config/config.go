package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

// A Config is what a configuration file says. Paths in it are absolute, and
// secrets are in their place.
type Config struct {
	Listen string `yaml:"listen"` // host:port. Defaults to DefaultListen
	Data   string `yaml:"data"`   // the directory of the queue
	NATS   *NATS  `yaml:"nats"`   // a cluster, in place of Data
	Sync   Sync   `yaml:"sync"`
	Strict bool   `yaml:"strict"` // answer 400 to a request with a bad call
	Limits Limits `yaml:"limits"`
	// HTTPConfig is what the settings of each source say of retries.
	HTTPConfig JSONObject `yaml:"httpConfig"`
	Egress     Egress     `yaml:"egress"`
	Admin      Admin      `yaml:"admin"`
	TLS        TLS        `yaml:"tls"`
	Log        Log        `yaml:"log"`
	Alerts     *Alerts    `yaml:"alerts"` // nil: nobody is told
	Telemetry  Telemetry  `yaml:"telemetry"`

	Sources      []Source      `yaml:"sources"`
	Destinations []Destination `yaml:"destinations"`

	files    Files
	warnings Problems
	plans    map[string]*plan.Plan // by the path of their file
}

// Files returns those that the configuration was read from.
func (c *Config) Files() Files { return c.files }

// Warnings returns what is no error, but should be mended.
func (c *Config) Warnings() Problems { return c.warnings }

// DefaultListen is where a collector listens.
const DefaultListen = "127.0.0.1:8765"

// NATS is a cluster that is there already.
type NATS struct {
	URL         string `yaml:"url"`
	Credentials string `yaml:"credentials"` // a file
	CAFile      string `yaml:"caFile"`
	CertFile    string `yaml:"certFile"`
	KeyFile     string `yaml:"keyFile"`
	Replicas    int    `yaml:"replicas"` // Defaults to 3
	Name        string `yaml:"name"`     // prefix of streams and subjects. Defaults to "analytics"
	Monitor     string `yaml:"monitor"`  // monitoring addresses of its servers, divided by commas
	// AcceptLazySync starts although servers acknowledge calls before they are on a disk.
	AcceptLazySync bool `yaml:"acceptLazySync"`
}

// Limits bound what is taken and what is kept. Zero means the default.
type Limits struct {
	Queue          Size     `yaml:"queue"`
	Keep           Duration `yaml:"keep"`
	BodyBytes      Size     `yaml:"bodyBytes"`
	CallBytes      Size     `yaml:"callBytes"`
	BatchCalls     int      `yaml:"batchCalls"`
	CallsPerSecond int      `yaml:"callsPerSecond"`
	Concurrency    int      `yaml:"concurrency"`
	DedupWindow    Duration `yaml:"dedupWindow"`
	DedupCalls     int      `yaml:"dedupCalls"`
	History        int      `yaml:"history"`
}

// A JSONObject is a JSON object as it is written.
type JSONObject []byte

// Egress says where webhooks may be, and how they are reached.
type Egress struct {
	Allow  []netip.Prefix `yaml:"allow"`
	Proxy  string         `yaml:"proxy"` // a URL, or "environment"
	CAFile string         `yaml:"caFile"`
}

// Admin says who may use the admin API, and where.
type Admin struct {
	Listen    string   `yaml:"listen"` // a listener of its own; empty: beside the tracking API
	TokenFile string   `yaml:"tokenFile"`
	Token     string   `yaml:"token"`
	Hosts     []string `yaml:"hosts"`
	// Proxies are those before the listener whose X-Forwarded headers are believed.
	Proxies []netip.Prefix `yaml:"proxies"`
}

// TLS is the certificate of the listeners; none where it is empty.
type TLS struct {
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// Log says how the log looks.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error. Defaults to info
	Format string `yaml:"format"` // text or json. Defaults to text
}

// Alerts say who is told when something is wrong.
type Alerts struct {
	Webhook      string            `yaml:"webhook"`
	After        Duration          `yaml:"after"`  // how long a destination must be down. Defaults to 5m
	Format       string            `yaml:"format"` // AlertsJSON or AlertsSlack. Defaults to AlertsJSON
	SharedSecret string            `yaml:"sharedSecret"`
	Signature    string            `yaml:"signature"`
	Headers      map[string]string `yaml:"headers"`
}

// Values of Alerts.Format.
const (
	AlertsJSON  = "json"
	AlertsSlack = "slack" // what Slack's incoming webhooks take
)

// Settings returns the webhook as the collector takes those of destinations.
func (a *Alerts) Settings() webhook.Settings {
	return webhook.Settings{
		Webhooks:     []webhook.Endpoint{{URL: a.Webhook, Headers: a.Headers}},
		SharedSecret: a.SharedSecret, Signature: webhook.Signature(a.Signature),
	}
}

// Telemetry says where traces and metrics of the collector go.
type Telemetry struct {
	OTLP *OTLP `yaml:"otlp"` // nil: nowhere
}

// An OTLP is a receiver of OpenTelemetry's protocol. What is left out the environment may
// say, by variables that begin with OTEL_.
type OTLP struct {
	Endpoint string            `yaml:"endpoint"`
	Protocol string            `yaml:"protocol"` // OTLPOverGRPC or OTLPOverHTTP
	Headers  map[string]string `yaml:"headers"`
	Insecure bool              `yaml:"insecure"` // without TLS, where the endpoint is host:port
	Traces   OTLPTraces        `yaml:"traces"`
	Metrics  OTLPMetrics       `yaml:"metrics"`
}

// Values of OTLP.Protocol.
const (
	OTLPOverGRPC = "grpc"
	OTLPOverHTTP = "http"
)

// OTLPTraces says which traces are sent.
type OTLPTraces struct {
	Enabled *bool    `yaml:"enabled"` // Defaults to true
	Ratio   *float64 `yaml:"ratio"`   // of those that no sender has decided about. Defaults to 1
}

// OTLPMetrics says when metrics are sent.
type OTLPMetrics struct {
	Enabled  *bool    `yaml:"enabled"`  // Defaults to true
	Interval Duration `yaml:"interval"` // Defaults to 1m
}

// SlogLevel returns the level in the words of package slog.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if l.Level != "" {
		_ = level.UnmarshalText([]byte(l.Level)) // it was checked
	}
	return level
}

// A Source is where calls come from.
type Source struct {
	Name           string `yaml:"name"`
	WriteKey       string `yaml:"writeKey"`
	CallsPerSecond int    `yaml:"callsPerSecond"`
	Plan           string `yaml:"plan"`         // the file of its tracking plan
	OnViolation    string `yaml:"onViolation"`  // what becomes of calls that are not as planned. Defaults to Report
	ViolationsTo   string `yaml:"violationsTo"` // the source that gets a call of each violation
}

// Values of Source.OnViolation.
const (
	Report     = "report"     // they are delivered, with their violations beside them
	Quarantine = "quarantine" // they are kept out of destinations, and can be replayed when the plan is mended
	Reject     = "reject"     // they are not taken
)

// PlanOf returns the tracking plan of a source, or nil.
func (c *Config) PlanOf(s *Source) *plan.Plan { return c.plans[s.Plan] }

// A Destination forwards calls to up to five webhooks.
type Destination struct {
	Name           string    `yaml:"name"`
	Type           string    `yaml:"type"` // webhooks, which is also the default
	Sources        []string  `yaml:"sources"`
	Enabled        *bool     `yaml:"enabled"` // Defaults to true
	SharedSecret   string    `yaml:"sharedSecret"`
	PreviousSecret string    `yaml:"previousSecret"`
	Signature      string    `yaml:"signature"`
	AliasFields    string    `yaml:"aliasFields"`
	TraceContext   string    `yaml:"traceContext"`
	Order          string    `yaml:"order"`
	GiveUpAfter    Duration  `yaml:"giveUpAfter"`
	OnFailure      string    `yaml:"onFailure"`
	Types          Filter    `yaml:"types"`
	Events         Filter    `yaml:"events"`
	MaxPerSecond   float64   `yaml:"maxPerSecond"` // Defaults to no limit
	Concurrency    int       `yaml:"concurrency"`  // Defaults to that of the limits
	Webhooks       []Webhook `yaml:"webhooks"`
}

// A Filter picks calls by a name that they have.
type Filter struct {
	Allow []string `yaml:"allow"` // Defaults to all
	Deny  []string `yaml:"deny"`
}

// A Webhook is one URL with the static headers of each request to it.
type Webhook struct {
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
}

// Settings returns the sources and destinations as the collector takes them.
func (c *Config) Settings() settings.Settings {
	var s settings.Settings
	for _, source := range c.Sources {
		s.Sources = append(s.Sources, tracking.Source{Name: source.Name, WriteKey: source.WriteKey, CallsPerSecond: source.CallsPerSecond})
	}
	for _, d := range c.Destinations {
		destination := tracking.Destination{
			Name: d.Name, Sources: d.Sources, Disabled: d.Enabled != nil && !*d.Enabled,
			Ordering: tracking.Ordering{Order: tracking.Order(d.Order), GiveUpAfter: time.Duration(d.GiveUpAfter), OnFailure: tracking.OnFailure(d.OnFailure)},
			Types:    tracking.Filter(d.Types), Events: tracking.Filter(d.Events), MaxPerSecond: d.MaxPerSecond, Concurrency: d.Concurrency,
			Settings: webhook.Settings{
				SharedSecret: d.SharedSecret, PreviousSecret: d.PreviousSecret,
				Signature: webhook.Signature(d.Signature), AliasFields: webhook.AliasFields(d.AliasFields), TraceContext: webhook.TraceContext(d.TraceContext),
			},
		}
		for _, w := range d.Webhooks {
			destination.Webhooks = append(destination.Webhooks, webhook.Endpoint(w))
		}
		s.Destinations = append(s.Destinations, destination)
	}
	return s
}

// CollectorLimits returns the limits of requests as the collector takes them.
func (c *Config) CollectorLimits() tracking.Limits {
	return tracking.Limits{
		BodyBytes: int(c.Limits.BodyBytes), CallBytes: int(c.Limits.CallBytes),
		BatchCalls: c.Limits.BatchCalls, CallsPerSecond: c.Limits.CallsPerSecond,
	}
}

// A Sync is how often what was stored is brought to the disk: zero before each
// answer, else so often.
type Sync time.Duration

// A Duration is a time.Duration as people write it.
type Duration time.Duration

// A Size is a number of bytes as people write it.
type Size int64
