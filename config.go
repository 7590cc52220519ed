package analytics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/segmentio/backo-go"

	"github.com/seed-45eadc4a/analytics-go/internal/retry"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// The endpoints of the service, by the region of a workspace. Calls go to Endpoint
// unless Config.Endpoint says otherwise.
//
// A workspace in the EU takes calls at EndpointEU alone, and no client can tell that it
// has the wrong one: to calls with a write key of the EU, EndpointUS answers 200 as to
// any others, but they never appear in the workspace, and the service does not say that
// it brings them there. They count as delivered in Stats, and personal data has left the
// EU. So look whether a first call arrives in the debugger of the source. A write key does
// not show its region; the address of the workspace in a browser does.
const (
	Endpoint   = EndpointUS
	EndpointUS = "https://api.segment.io"
	EndpointEU = "https://events.eu1.segmentapis.com" // Dublin
)

// Backo is how long a failed batch of a client made by New waits before it is sent
// again: 100 ms at first, twice as long each time, 10 seconds at most. A program may set
// another, which clients made by NewWithConfig use as well; without one they wait half a
// second at first, twice as long each time, a minute at most. It is read at a client's
// first call. The client shortens each wait at random by up to a quarter, so that many
// clients do not come back at once. Config.Backoff is for one client.
var Backo = version2Backo

// version2Backo is what Backo is unless a program sets another.
var version2Backo = backo.DefaultBacko()

// The defaults that both Config and the fields of Client have.
const (
	defaultFlushAt      = 20
	defaultFlushAfter   = 5 * time.Second
	defaultMaxInFlight  = 4
	maxMaxInFlight      = 1000
	defaultMaxBytes     = 32 << 20
	defaultTimeout      = 10 * time.Second
	defaultCloseTimeout = 20 * time.Second
	defaultSpoolBytes   = 1 << 30

	// minMaxBytes leaves room for a call of the largest size, its id, and a
	// batch context of maxContextBytes, so that a client can always make
	// progress.
	minMaxBytes = 128 << 10
	// minSpoolBytes leaves room for segments that are not tiny.
	minSpoolBytes = 1 << 20
)

// FullPolicy is what happens to a call for which Config.MaxBytes, or with a spool
// Config.SpoolMaxBytes, leaves no room.
type FullPolicy int

const (
	// Reject returns ErrQueueFull at once.
	Reject FullPolicy = iota
	// Block makes the call wait for room: until the context given to Enqueue
	// ends, or for as long as it takes when Track and its kin are used.
	Block
	// DropOldest drops the batch that has waited longest and is not being sent.
	// When batches that are being sent use all memory, the call returns
	// ErrQueueFull.
	DropOldest
)

// Config configures a client. The zero value of each field means its default.
type Config struct {
	// Endpoint is the collector's URL, http or https: EndpointUS, EndpointEU, or one of
	// your own. A URL whose path ends in /batch or /import is used as it is; to one that
	// ends in /v1, /batch is appended, and to any other /v1/batch. Defaults to the
	// constant Endpoint, which is EndpointUS.
	Endpoint string

	// FlushAt is how many calls make a batch; 1 sends every call by itself.
	// A batch is also sent when the next call would take its body over
	// MaxBatchBytes. Defaults to 20, also when negative.
	FlushAt int

	// FlushAfter is how long after the last batch one is sent that is not full. No
	// call waits longer than that for its batch to be sent. Defaults to 5 seconds,
	// also when negative.
	FlushAfter time.Duration

	// MaxInFlight is how many batches are sent, or wait to be sent again, at the same
	// time. With 1 the collector gets the calls in the order in which they were made,
	// and a batch that is retried delays those after it, until it has used up
	// MaxAttempts. At most 1000. Defaults to 4.
	MaxInFlight int

	// MaxAttempts is how many requests are made with a batch before its calls are
	// dropped, not counting those that the collector answered with a Retry-After or an
	// X-RateLimit-Reset. Ten take about two and a half minutes against a collector
	// that fails at once.
	//
	// If the collector takes no other batch meanwhile, it is not the batch that is
	// wrong. With a Spool, and without one where MaxAttempts is 0, the batch then goes
	// to the back of the queue and starts over, until MaxTotalBackoffDuration ends. It
	// waits on the disk, or in the memory that MaxBytes bounds: when that is full,
	// WhenFull decides whether new calls or old ones are lost.
	// Defaults to 10; New makes it 10.
	MaxAttempts int

	// Backoff, if set, returns how long a batch waits before it is sent again, after a
	// number of retries that count: 0 for the first wait. The wait is taken as it is,
	// without jitter; a negative one counts as 0. The collector's Retry-After comes before
	// it. The client waits for Backoff, which must return soon and must not wait for the
	// client; a panic in it is logged. With SettingsEndpoint it is called from two goroutines.
	// Defaults to half a second that doubles up to a
	// minute, each shortened at random by up to a quarter, unless a program has set Backo.
	Backoff func(retries int) time.Duration

	// MaxTotalBackoffDuration is how long after its first failure that counts a batch
	// is sent for the last time. Its calls are dropped then, as DropExpired, also those
	// in a Spool; a new process that opens the Spool begins anew. Defaults to 12 hours.
	MaxTotalBackoffDuration time.Duration

	// MaxRateLimitDuration is how long the collector may ask a batch to wait, by
	// Retry-After and the like, while it takes no call at all. The calls of the batch are
	// dropped then, as DropExpired. It is counted apart from MaxTotalBackoffDuration.
	// Defaults to 12 hours.
	MaxRateLimitDuration time.Duration

	// SettingsEndpoint is the URL of the service that has the settings of a source, such
	// as https://cdn-settings.segment.com; /v1/projects/, the write key and /settings
	// are appended. The client reads them once as it starts; its first batch waits for
	// them, for two seconds at most. The httpConfig in them counts more than MaxAttempts,
	// MaxTotalBackoffDuration, MaxRateLimitDuration and Backoff. The service's libraries for
	// servers make no such request. Defaults to none.
	SettingsEndpoint string

	// MaxBytes limits the memory, in bytes, of queued calls, of calls in flight or
	// waiting for a retry, and of results that Callback has not received. Free
	// buffers count. The limit does not include one megabyte with Gzip, ten
	// megabytes while a Spool is read back, the buffers of net/http, and 512 bytes
	// for each call of a refused batch that is sent in parts. The garbage collector
	// may let a full client's heap grow to twice MaxBytes. At least 128 KiB.
	// Defaults to 32 MiB.
	MaxBytes int64

	// WhenFull is what happens to a call for which MaxBytes leaves no room.
	// Defaults to Reject.
	WhenFull FullPolicy

	// Spool is a directory in which each call is kept, from before the method that
	// makes it returns nil until it is delivered or dropped. Calls that a process
	// leaves there, because it dies or is closed in time, are sent by the next process
	// with the same directory and the same write key. The directory is made if it does
	// not exist. One process at a time can use it, and each client of a process needs
	// its own; a call that finds it in use returns an error that names the holder. On
	// Linux a busy client has some of its files mapped into memory, which the system
	// can reclaim. Defaults to none.
	//
	// With a spool, calls for which MaxBytes leaves no room are on the disk alone and
	// are read back later; under Block, only after a call has waited a quarter of a
	// second, or until its context ended, for memory. WhenFull is what happens when
	// SpoolMaxBytes leaves no room. Calls that cannot be written are not accepted: they
	// return an ErrSpool. A collector that is away for longer than
	// MaxTotalBackoffDuration costs the calls that have been tried for so long.
	Spool string

	// SpoolSync makes each call wait until it is on the storage medium, so that it
	// survives a loss of power and not only the end of the process. Calls made at the
	// same time share a wait, of a millisecond or more.
	// Defaults to false.
	SpoolSync bool

	// SpoolMaxBytes bounds the size of all files in Spool at any time, including some MB
	// of files that are kept for later calls. Files of another write key are not counted.
	// At least 1 MiB. Defaults to 1 GiB.
	SpoolMaxBytes int64

	// Gzip compresses each batch, once, as soon as it is complete: a tenth of
	// the bytes on the wire and in memory, for about a microsecond of CPU per
	// call. The collector must accept Content-Encoding: gzip. Defaults to
	// false.
	Gzip bool

	// Context is the context that all calls have, up to 32 KB as JSON. It is sent once
	// with each batch, and collectors merge it into the context of each call; the one of
	// this repository takes the call's own of entries that both have. Calls in a Spool get
	// that of the process that sends them. NewWithConfig encodes it; the map can be changed
	// afterwards. Defaults to DefaultContext.
	Context map[string]interface{}

	// Integrations are the integrations that all calls have. They are written into each
	// call: an entry that the call has itself takes precedence, and the others are added
	// to it. So with Integrations{}.DisableAll(), calls go where they say, and nowhere
	// else. NewWithConfig encodes it; the map can be changed afterwards. Defaults to none.
	Integrations Integrations

	// Callback, if set, is called once for the end of each accepted call, except for
	// calls that Spool keeps for the next process or has lost. The calls of one batch
	// come in their order, one at a time, on a goroutine of the callback's own. Close and
	// Shutdown wait until all have come; Flush, which the callback may call, does not.
	//
	// The callback may use the client, but must not call Close or Shutdown, which wait
	// for it until their time is over and then say so. Results that the callback has
	// not taken use memory that counts towards MaxBytes. So under Block, the callback
	// makes calls by Enqueue with a context that ends: Track would wait for memory that
	// the callback is to release. The callback must not end its goroutine, as the
	// FailNow of a test does. A panic in it is logged and ends that one invocation.
	// Defaults to none.
	Callback func(Result)

	// Value, if set, is called with the context of each valid call, on the goroutine that
	// makes the call, and returns what is kept beside the call in memory until it has
	// ended: Callback gets it as Result.Value, and an http.RoundTripper by RequestValues.
	// The context is that given to Enqueue, or context.Background with Track and its kin.
	//
	// A call may wait for hours, so return the little that is needed, such as a trace or
	// request id: the whole context keeps all that it refers to. MaxBytes counts 48 bytes
	// a call for it. A call that is read back from Spool has nil. Defaults to none.
	Value func(ctx context.Context) interface{}

	// CloseTimeout is how long Close waits for calls to be delivered. Close returns
	// two seconds after that at the latest, even if a request cannot be cancelled.
	// Defaults to 20 seconds.
	CloseTimeout time.Duration

	// HTTPClient makes the requests. The client uses a copy: redirects are never
	// followed, and a Timeout of zero becomes 10 seconds. Without a Transport, the copy
	// has its own, made from http.DefaultTransport. Defaults to a copy of
	// http.DefaultClient.
	//
	// A Transport may use the client, but must not wait for it: Flush, Shutdown and
	// Close wait for the request that it is making, and so do, under Block, calls
	// whose context does not end.
	HTTPClient *http.Client

	// WrapTransport, if set, is called once, before the first request, with the transport
	// that the client would use, its own or that of HTTPClient, and returns the one that it
	// uses: to add headers, to measure or to trace requests without giving up connections
	// that suit the client. It must not use the client, and what it returns is bound by what
	// HTTPClient says of a Transport. Defaults to none.
	WrapTransport func(http.RoundTripper) http.RoundTripper

	// Logger gets one line for each batch that is lost, and more with Verbose. The
	// write key is redacted. The writer of the Logger may use the client as Callback
	// may, but not with Verbose: a log.Logger holds a lock while it writes, and logs
	// each call then. Defaults to standard error.
	Logger *log.Logger

	// Slog, if set, gets the log in place of Logger, also if both are set: messages that
	// are the same each time, with attributes.
	//
	//   - Error: "calls lost", with calls, reason, attempts, status and error, and
	//     "callback panicked" and "backoff panicked".
	//   - Warn: "batch refused", when a collector refuses a batch of which parts may be
	//     accepted; "collector is not taking calls", for the first of a row of attempts
	//     that failed; and what is wrong with Spool but costs no call.
	//   - Info: "collector is taking calls again".
	//   - Debug, with Verbose alone: each call and each attempt. The handler gets the
	//     context that Enqueue was given with the call.
	//
	// The write key is redacted. A handler may use the client as Callback may; with
	// Verbose it is called by each call, and must not make another. Defaults to none.
	Slog *slog.Logger

	// Verbose logs each call and each attempt, including payloads. So does the
	// environment variable DEBUG if it names analytics: a comma-separated list of
	// names, in which * stands for any text. Defaults to false.
	Verbose bool
}

// defaults are what the calls of a client have in common, encoded.
type defaults struct {
	middle       []byte // of each body: from the last call to the id of the batch
	integrations *defaultIntegrations
}

// check returns what is wrong with a Config, and what calls have in common.
func (cfg *Config) check(writeKey string) (d defaults, err error) {
	var errs []error
	refuse := func(format string, args ...interface{}) {
		errs = append(errs, fmt.Errorf("analytics: "+format, args...))
	}
	if err := checkKey(writeKey); err != nil {
		errs = append(errs, err)
	}
	if _, err := batchURL(cfg.Endpoint); err != nil {
		errs = append(errs, err)
	}
	if cfg.MaxInFlight < 0 || cfg.MaxInFlight > maxMaxInFlight {
		refuse("Config.MaxInFlight is %d; it must be from 1 to %d, or 0 for %d", cfg.MaxInFlight, maxMaxInFlight, defaultMaxInFlight)
	}
	if cfg.MaxAttempts < 0 {
		refuse("Config.MaxAttempts is %d; it must be at least 1, or 0 for %d", cfg.MaxAttempts, retry.DefaultAttempts)
	}
	if cfg.MaxTotalBackoffDuration < 0 {
		refuse("Config.MaxTotalBackoffDuration is %v; it must be positive, or 0 for %v", cfg.MaxTotalBackoffDuration, retry.DefaultMaxBackoff)
	}
	if cfg.MaxRateLimitDuration < 0 {
		refuse("Config.MaxRateLimitDuration is %v; it must be positive, or 0 for %v", cfg.MaxRateLimitDuration, retry.DefaultMaxRateLimit)
	}
	if _, err := settingsURL(cfg.SettingsEndpoint, writeKey); err != nil {
		errs = append(errs, err)
	}
	if cfg.MaxBytes != 0 && cfg.MaxBytes < minMaxBytes {
		refuse("Config.MaxBytes is %d; it must be at least %d, or 0 for %d", cfg.MaxBytes, minMaxBytes, defaultMaxBytes)
	}
	if cfg.SpoolMaxBytes != 0 && cfg.SpoolMaxBytes < minSpoolBytes {
		refuse("Config.SpoolMaxBytes is %d; it must be at least %d, or 0 for %d", cfg.SpoolMaxBytes, minSpoolBytes, defaultSpoolBytes)
	}
	if cfg.CloseTimeout < 0 {
		refuse("Config.CloseTimeout is %v; it must be positive, or 0 for %v", cfg.CloseTimeout, defaultCloseTimeout)
	}
	if cfg.WhenFull < Reject || cfg.WhenFull > DropOldest {
		refuse("Config.WhenFull is %d; it must be Reject, Block or DropOldest", cfg.WhenFull)
	}
	if d.middle, err = appendMiddle(nil, cfg.Context); err != nil {
		errs = append(errs, err)
	}
	if d.integrations, err = encodeIntegrations(cfg.Integrations); err != nil {
		errs = append(errs, err)
	} else if d.integrations != nil && len(d.integrations.field) > MaxCallBytes {
		refuse("Config.Integrations is %d bytes as JSON, and each call is limited to %d", len(d.integrations.field), MaxCallBytes)
	}
	return d, errors.Join(errs...)
}

// checkKey returns the problem with a write key, which the error does not repeat.
func checkKey(writeKey string) error {
	trimmed := strings.TrimSpace(writeKey)
	switch {
	case trimmed == "":
		return errors.New("analytics: the write key is empty, perhaps for a variable that is not set; it is in the settings of the source")
	case strings.HasSuffix(writeKey, "\n"):
		return errors.New("analytics: the write key ends with a line break; use strings.TrimSpace if it is read from a file")
	case strings.TrimLeftFunc(writeKey, unicode.IsSpace) != writeKey:
		return errors.New("analytics: the write key begins with white space; remove it, or use strings.TrimSpace")
	case trimmed != writeKey:
		return errors.New("analytics: the write key ends with white space; remove it, or use strings.TrimSpace")
	case !utf8.ValidString(writeKey):
		return errors.New("analytics: the write key is not UTF-8; copy it from the settings of the source")
	case strings.Contains(writeKey, ":"):
		return errors.New("analytics: the write key contains a colon, which Basic authentication cannot transmit; copy it from the settings of the source")
	}
	for _, r := range writeKey {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("analytics: the write key contains %U, which is not printable; copy it from the settings of the source", r)
		}
	}
	return nil
}

// parseURL parses the http or https URL of a setting. The error does not repeat a password.
func parseURL(name, text, example string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error // its text has the URL
		if errors.As(err, &parse) {
			err = parse.Err
		}
		if strings.Contains(text, "@") {
			return nil, fmt.Errorf("analytics: %s is not a URL: a character before the @ may need percent-encoding; it must look like %s", name, example)
		}
		return nil, fmt.Errorf("analytics: %s %q is not a URL: %s; it must look like %s", name, wire.Clip(text, wire.MaxRepeated/2), wire.Clip(err.Error(), wire.MaxRepeated/4), example)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		if at := strings.LastIndexByte(text, '@'); at >= 0 {
			text = "…" + text[at:]
		}
		return nil, fmt.Errorf("analytics: %s %q is not an http or https URL with a host; it must look like %s", name, wire.Clip(text, wire.MaxRepeated/2), example)
	}
	port := u.Port() // url.Parse accepts any number
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
		return nil, fmt.Errorf("analytics: %s has the port %s; a port is from 1 to %d", name, wire.Clip(port, wire.MaxRepeated/2), math.MaxUint16)
	}
	return u, nil
}

// batchURL returns the URL that batches are posted to.
func batchURL(endpoint string) (*url.URL, error) {
	u, err := parseURL("Endpoint", cmp.Or(endpoint, Endpoint), Endpoint)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.Path, "/")
	if strings.HasSuffix(path, "/batch") || strings.HasSuffix(path, "/import") {
		return u, nil
	}
	if strings.HasSuffix(path, "/v1") { // as the service's documents write it
		return u.JoinPath("batch"), nil
	}
	return joinPath(u, "v1", "batch"), nil
}

// joinPath is url.URL.JoinPath, but for a URL without a path, to which that joins one
// without a slash in front.
func joinPath(u *url.URL, elements ...string) *url.URL {
	if u.Path == "" {
		u.Path = "/"
	}
	return u.JoinPath(elements...)
}

// settingsURL returns the URL of a source's settings; it is nil without an endpoint.
func settingsURL(endpoint, writeKey string) (*url.URL, error) {
	if endpoint == "" {
		return nil, nil
	}
	u, err := parseURL("SettingsEndpoint", endpoint, "https://cdn-settings.segment.com")
	if err != nil {
		return nil, err
	}
	return joinPath(u, "v1", "projects", url.PathEscape(writeKey), "settings"), nil
}

// either resolves two fields that name the same thing: one that was changed
// from its default wins over one that was not; if both were, the smaller wins.
func either[T int | time.Duration](a, b, def T) T {
	a, b = orDefault(a, def), orDefault(b, def)
	switch def {
	case a:
		return b
	case b:
		return a
	}
	return min(a, b)
}

// orDefault is def for a value that is zero or negative.
func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// newRequest returns what all requests have in common.
func newRequest(u *url.URL, writeKey string, gzip bool) *http.Request {
	r := &http.Request{
		Method:     http.MethodPost,
		URL:        u,
		Host:       u.Host,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header: http.Header{
			"Content-Type": {"application/json"},
			"User-Agent":   {"analytics-go (version: " + Version + ")"},
		},
	}
	if gzip {
		r.Header["Content-Encoding"] = []string{"gzip"}
	}
	r.SetBasicAuth(writeKey, "")
	return r
}
