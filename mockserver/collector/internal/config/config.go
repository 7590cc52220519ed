package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/alerts"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/telemetry"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

// A Config is a configuration with absolute paths and resolved secrets.
type Config struct {
	Listen string `yaml:"listen"` // host:port; defaults to DefaultListen
	Data   string `yaml:"data"`   // directory of the queue
	NATS   *NATS  `yaml:"nats"`   // cluster to use instead of Data
	Sync   Sync   `yaml:"sync"`
	Strict bool   `yaml:"strict"` // whether to respond with 400 to requests that contain an invalid call
	Limits Limits `yaml:"limits"`
	// HTTPConfig contains the retry settings that clients receive with the settings of a source.
	HTTPConfig JSONObject     `yaml:"httpConfig"`
	Egress     Egress         `yaml:"egress"`
	Admin      Admin          `yaml:"admin"`
	TLS        TLS            `yaml:"tls"`
	Log        Log            `yaml:"log"`
	Alerts     *alerts.Config `yaml:"alerts"` // nil if there are no alerts
	Telemetry  Telemetry      `yaml:"telemetry"`
	RedactKey  string         `yaml:"redactKey"` // key of the hashes in redacted calls

	Sources      []Source      `yaml:"sources"`
	Destinations []Destination `yaml:"destinations"`

	files    Files
	warnings Problems
	plans    map[string]*plan.Plan // tracking plans, keyed by path
}

// Files returns the files that the configuration was read from.
func (c *Config) Files() Files { return c.files }

// Warnings returns problems that do not make the configuration invalid.
func (c *Config) Warnings() Problems { return c.warnings }

// DefaultListen is the default address of the collector.
const DefaultListen = "127.0.0.1:8765"

// NATS configures an existing NATS cluster.
type NATS struct {
	jetstream.NATS
	Name string `yaml:"name"` // prefix of streams and subjects; defaults to "analytics"
}

// Limits limits requests, the queue and retained data. Zero selects the default.
type Limits struct {
	Queue          Size          `yaml:"queue"`
	Keep           time.Duration `yaml:"keep"`
	BodyBytes      Size          `yaml:"bodyBytes"`
	CallBytes      Size          `yaml:"callBytes"`
	BatchCalls     int           `yaml:"batchCalls"`
	CallsPerSecond int           `yaml:"callsPerSecond"`
	Concurrency    int           `yaml:"concurrency"`
	DedupWindow    time.Duration `yaml:"dedupWindow"`
	DedupCalls     int           `yaml:"dedupCalls"`
	History        int           `yaml:"history"`
}

// A JSONObject is the text of a JSON object.
type JSONObject []byte

// Egress configures connections to webhooks.
type Egress struct {
	Allow  []netip.Prefix `yaml:"allow"`
	Proxy  string         `yaml:"proxy"` // a URL, or "environment"
	CAFile string         `yaml:"caFile"`
}

// Admin configures the admin API.
type Admin struct {
	Listen    string   `yaml:"listen"` // address of a separate listener; empty to use the main listener
	TokenFile string   `yaml:"tokenFile"`
	Token     string   `yaml:"token"`
	Hosts     []string `yaml:"hosts"`
	// Proxies are trusted to set X-Forwarded headers.
	Proxies []netip.Prefix `yaml:"proxies"`
}

// TLS contains the paths of the listeners' certificate and key.
type TLS struct {
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
}

// Log configures the log.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error; defaults to info
	Format string `yaml:"format"` // text or json; defaults to text
}

// Telemetry configures the export of traces and metrics.
type Telemetry struct {
	OTLP *telemetry.Config `yaml:"otlp"` // nil if nothing is exported
}

// SlogLevel returns the log level.
func (l Log) SlogLevel() slog.Level {
	var level slog.Level
	if l.Level != "" {
		_ = level.UnmarshalText([]byte(l.Level)) // already checked
	}
	return level
}

// A Source is a source of calls with its write key.
type Source struct {
	Name           string             `yaml:"name"`
	WriteKey       string             `yaml:"writeKey"`
	CallsPerSecond int                `yaml:"callsPerSecond"`
	Plan           string             `yaml:"plan"`         // path of a tracking plan
	OnViolation    string             `yaml:"onViolation"`  // how to treat calls that violate the plan; defaults to Report
	ViolationsTo   string             `yaml:"violationsTo"` // source that receives a call for each violation
	Redact         tracking.Redaction `yaml:"redact"`
}

// Values of Source.OnViolation.
const (
	Report     = "report"     // deliver calls with their violations
	Quarantine = "quarantine" // do not deliver calls; they can be replayed after the plan is fixed
	Reject     = "reject"     // reject calls
)

// PlanOf returns the tracking plan of a source, or nil.
func (c *Config) PlanOf(s *Source) *plan.Plan { return c.plans[s.Plan] }

// A Destination forwards calls to webhooks or to another collector.
type Destination struct {
	Enabled              *bool `yaml:"enabled"` // defaults to true
	tracking.Destination       // its JSON names are the names of the settings
}

// Settings returns the sources and destinations.
func (c *Config) Settings() settings.Settings {
	var s settings.Settings
	for _, source := range c.Sources {
		s.Sources = append(s.Sources, tracking.Source{Name: source.Name, WriteKey: source.WriteKey, CallsPerSecond: source.CallsPerSecond, Redact: source.Redact})
	}
	for _, d := range c.Destinations {
		d.Disabled = d.Enabled != nil && !*d.Enabled
		s.Destinations = append(s.Destinations, d.Destination)
	}
	return s
}

// CollectorLimits returns the limits for requests.
func (c *Config) CollectorLimits() tracking.Limits {
	return tracking.Limits{
		BodyBytes: int(c.Limits.BodyBytes), CallBytes: int(c.Limits.CallBytes),
		BatchCalls: c.Limits.BatchCalls, CallsPerSecond: c.Limits.CallsPerSecond,
	}
}

// A Sync is the interval between syncs to disk. If it is zero, the collector syncs before each
// response.
type Sync time.Duration

// A Size is a number of bytes.
type Size int64
