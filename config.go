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
	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// Endpoints of the service, by the region of the workspace. Endpoint is the default of
// Config.Endpoint.
//
// A workspace in the EU accepts calls only at EndpointEU. EndpointUS also responds 200 to
// write keys of the EU, but the calls do not appear in the workspace. The client cannot
// detect this mistake: it counts the calls as delivered, although personal data has left
// the EU. So check in the source's debugger that the first call arrives. The write key does
// not show the region, but the address of the workspace in the browser does.
const (
	Endpoint   = EndpointUS
	EndpointUS = "https://api.segment.io"
	EndpointEU = "https://events.eu1.segmentapis.com" // Dublin
)

// Backo computes the pauses before a client made by New retries a batch. The first pause is
// 100 ms, and each following pause is twice as long, up to 10 seconds.
//
// If a program replaces Backo, clients made by NewWithConfig use it too. Otherwise their
// pauses start at half a second and double up to a minute. A client reads Backo at its
// first call. It shortens each pause by a random part of up to a quarter, so that many
// clients do not retry at the same time. Config.Backoff sets the pauses of one client.
var Backo = version2Backo

// version2Backo is the initial value of Backo.
var version2Backo = backo.DefaultBacko()

// Defaults of Config and of the fields of Client.
const (
	defaultFlushAt      = 20
	defaultFlushAfter   = 5 * time.Second
	defaultMaxInFlight  = 4
	maxMaxInFlight      = 1000
	defaultMaxBytes     = 32 << 20
	defaultTimeout      = 10 * time.Second
	defaultCloseTimeout = 20 * time.Second
	defaultSpoolBytes   = 1 << 30

	// minMaxBytes is enough for the largest call, its ID, and a batch context of
	// maxContextBytes. So any single call fits into an empty client.
	minMaxBytes = 128 << 10
	// minSpoolBytes is enough for segments of a practical size.
	minSpoolBytes = 1 << 20
)

// FullPolicy selects how a client handles a call that exceeds Config.MaxBytes or, with a
// spool, Config.SpoolMaxBytes.
type FullPolicy int

const (
	// Reject makes the call return ErrQueueFull immediately.
	Reject FullPolicy = iota
	// Block makes the call wait for free memory or disk space until the context passed to
	// Enqueue is done. Track and the other methods without a context wait without a limit.
	Block
	// DropOldest drops the oldest batch that is not being sent. If batches that are being
	// sent use all of the memory, the call returns ErrQueueFull.
	DropOldest
)

// Config configures a client. A field with the zero value uses its default.
type Config struct {
	// Endpoint is the URL of the collector, http or https: EndpointUS, EndpointEU, or
	// the URL of another collector. The client uses a path that ends in /batch or /import
	// as it is. It appends /batch to a path that ends in /v1, and /v1/batch to any other
	// path. Defaults to EndpointUS.
	Endpoint string

	// FlushAt is the number of calls in a batch; 1 sends each call separately. A batch
	// is also sent when the next call would make it larger than MaxBatchBytes.
	// Zero and negative values mean 20.
	FlushAt int

	// FlushAfter is the longest time that a call waits for its batch to be sent. The
	// client measures it from the previous batch. Zero and negative values mean 5 seconds.
	FlushAfter time.Duration

	// MaxInFlight is the maximum number of batches that are being sent or retried at
	// the same time. If it is 1, the collector receives the calls in order, and a retry
	// delays the following batches until MaxAttempts is reached. The maximum is 1000.
	// Defaults to 4.
	MaxInFlight int

	// MaxAttempts is the number of times a batch is sent before its calls are dropped.
	// An attempt does not count if the response contains Retry-After or
	// X-RateLimit-Reset. If each attempt fails immediately, ten attempts take about two
	// and a half minutes.
	//
	// If no other batch was delivered during these attempts, the collector is probably
	// unavailable. With Spool, or if MaxAttempts is 0, the client then moves the batch to
	// the end of the queue and starts counting again, until MaxTotalBackoffDuration is
	// reached. The batch waits on the disk, or in memory within MaxBytes. When this space
	// is full, WhenFull decides which calls are lost. Zero means 10 attempts. New sets
	// the field to 10, so clients made by New start counting again only with Spool.
	MaxAttempts int

	// Backoff, if set, returns the pause before a batch is sent again. retries is the
	// number of previous retries that count; it is 0 before the first retry. The client
	// adds no jitter, and treats a negative pause as 0. If the collector sends
	// Retry-After, the client uses the header instead of Backoff.
	//
	// Backoff must return quickly and must not wait for the client. The client logs a
	// panic in it. With SettingsEndpoint, two goroutines call it. By default, the client
	// uses Backo if the program has replaced it. Otherwise the pauses start at half a
	// second and double up to a minute, each shortened by a random part of up to a
	// quarter.
	Backoff func(retries int) time.Duration

	// MaxTotalBackoffDuration limits the time between the first and the last attempt to
	// send a batch. After that, its calls are dropped as DropExpired, even if they are in
	// Spool. The time starts again when a new process opens Spool. Defaults to 12 hours.
	MaxTotalBackoffDuration time.Duration

	// MaxRateLimitDuration limits how long Retry-After and X-RateLimit-Reset may delay a
	// batch while the collector accepts no calls. After that, the calls of the batch are
	// dropped as DropExpired. This time does not count towards MaxTotalBackoffDuration.
	// Defaults to 12 hours.
	MaxRateLimitDuration time.Duration

	// SettingsEndpoint is the URL of the service that returns the settings of a source,
	// such as https://cdn-settings.segment.com. The client appends /v1/projects/, the
	// write key and /settings, and reads the settings once when it starts. The first
	// batch waits up to two seconds for them. The httpConfig in the settings overrides
	// MaxAttempts, MaxTotalBackoffDuration, MaxRateLimitDuration and Backoff. If the
	// field is empty, the client reads no settings, like the service's server libraries.
	SettingsEndpoint string

	// MaxBytes limits the memory, in bytes, for queued calls, calls that are being sent
	// or retried, results that Callback has not received, and free buffers. It does not
	// include 1 MB for Gzip, 10 MB while Spool is read back, the buffers of net/http, and
	// 512 bytes for each call of a refused batch that is sent in parts. The garbage
	// collector may let the heap of a full client grow to twice MaxBytes. The minimum is
	// 128 KiB. Defaults to 32 MiB.
	MaxBytes int64

	// WhenFull selects how the client handles a call that exceeds MaxBytes. Defaults to
	// Reject.
	WhenFull FullPolicy

	// Spool is a directory that stores calls until they are delivered or
	// dropped. A call is stored before its method returns nil. If the process exits
	// before it has delivered all calls, the next process with the same directory and
	// write key sends the rest. The client creates the directory if it does not exist.
	// Each client needs its own directory: a call returns an error that names the owner
	// if the directory is in use. On Linux, a busy client maps files into memory that the
	// system can reclaim. If the field is empty, the client uses no spool.
	//
	// With a spool, calls that exceed MaxBytes are kept only on the disk and are read
	// back later. Under Block, such a call first waits for memory, for up to a quarter
	// of a second or until its context is done. WhenFull applies to calls that exceed
	// SpoolMaxBytes. A call that cannot be written is not accepted and returns an error
	// that wraps ErrSpool. If the collector is unavailable for longer than
	// MaxTotalBackoffDuration, the client drops the calls that it has tried to send for
	// that long.
	Spool string

	// SpoolSync makes each call wait until it is written to the storage device, so that
	// the call survives a power loss. The wait takes a millisecond or more. Concurrent
	// calls share one wait. Defaults to false.
	SpoolSync bool

	// SpoolMaxBytes limits the total size of the files in Spool, in bytes. The total
	// includes a few MB of files that are kept for later calls, but not the files of
	// another write key. The minimum is 1 MiB. Defaults to 1 GiB.
	SpoolMaxBytes int64

	// Gzip compresses each batch once, when it is complete. Compression reduces the traffic
	// and the memory to about a tenth, and takes about a microsecond of CPU time per call.
	// The collector must accept Content-Encoding: gzip. Defaults to false.
	Gzip bool

	// Context is the context of all calls, up to 32 KB as JSON. It is sent once per
	// batch, and collectors merge it into the context of each call. In this repository's
	// collector, entries of the call take precedence. Calls that are read back from Spool
	// get the context of the current process. NewWithConfig encodes the map, so the
	// caller may change it afterwards. Defaults to DefaultContext.
	Context map[string]interface{}

	// Integrations are added to each call. An entry of the call takes precedence over
	// the entry with the same key. For example, Integrations{}.DisableAll() sends calls
	// only to the destinations that they name. NewWithConfig encodes the map, so the
	// caller may change it afterwards.
	Integrations Integrations

	// Callback, if set, receives the result of each accepted call, except for calls that
	// Spool keeps for the next process or has lost. The results of one batch arrive in
	// the order of the calls. One goroutine calls Callback, one result at a time. Close
	// and Shutdown wait until Callback has received all results. Flush does not.
	//
	// Callback may use the client, but must not call Close or Shutdown: they would wait
	// for Callback until they time out, and return an error. Callback must not call
	// runtime.Goexit, directly or through FailNow in a test. The client logs a panic in
	// Callback and continues with the next result.
	//
	// Results that Callback has not received count towards MaxBytes. So under Block,
	// Callback must not call Track, which may wait for memory that only Callback can
	// free. Use Enqueue with a context that has a deadline instead.
	Callback func(Result)

	// Value, if set, is called with the context of each valid call, on the caller's
	// goroutine. The client keeps the returned value in memory until the call is
	// delivered or dropped. Callback receives it as Result.Value, and an
	// http.RoundTripper reads it with RequestValues. The context is the one passed to
	// Enqueue, or context.Background for methods without a context.
	//
	// A call may wait for hours, so return a small value such as a trace ID. Do not return
	// the context, because it keeps everything that it refers to in memory. MaxBytes
	// counts 48 bytes per call for the value. A call that is read back from Spool has a
	// nil value.
	Value func(ctx context.Context) interface{}

	// CloseTimeout limits how long Close waits for calls to be delivered. Close
	// returns at most two seconds later, even if a request cannot be canceled. Close can
	// take longer only if the file system of Spool does not respond. Defaults to 20 seconds.
	CloseTimeout time.Duration

	// HTTPClient sends the requests. The client uses a copy that does not follow
	// redirects. If Timeout is zero, the copy has a timeout of 10 seconds. If Transport is
	// nil, the copy has its own transport, based on http.DefaultTransport. Defaults to
	// http.DefaultClient.
	//
	// A Transport may use the client, but must not call a method that waits for the
	// current request: Flush, Shutdown, Close, or, under Block, a call whose context does
	// not end.
	HTTPClient *http.Client

	// WrapTransport, if set, is called before the first request with the transport of
	// the client, and returns the transport to use. The returned transport can add
	// headers, and can measure or trace requests. The client's connection settings stay
	// in effect. If WrapTransport panics, the call returns the panic as an error.
	// WrapTransport must not use the client. The returned transport has the same
	// restrictions as the transport in HTTPClient.
	WrapTransport func(http.RoundTripper) http.RoundTripper

	// Logger receives one line for each lost batch, for each panic in Callback or Backoff, and
	// for problems of Spool and SettingsEndpoint. With Verbose, it receives more lines. The
	// write key is redacted. The Logger's writer may use the client under the same rules as
	// Callback, except with Verbose: then each call writes to the log, and a log.Logger
	// holds a lock while it writes. Defaults to standard error.
	Logger *log.Logger

	// Slog, if set, replaces Logger. Each message is a constant, with attributes:
	//
	//   - Error: "calls lost", with calls, reason, attempts, status and error; "callback
	//     panicked"; "backoff panicked".
	//   - Warn: "batch refused", if parts of the batch may still be accepted; "collector is
	//     not taking calls", for the first of several failed attempts; "settings cannot be
	//     read"; problems of Spool that do not lose a call.
	//   - Info: "collector is taking calls again".
	//   - Debug, if Verbose is set: each call and each attempt. The handler receives the
	//     context that was passed to Enqueue.
	//
	// The write key is redacted. A handler may use the client under the same rules as
	// Callback. With Verbose, each call invokes the handler, so the handler must not make
	// calls.
	Slog *slog.Logger

	// Verbose logs each call and each attempt, including payloads. The environment
	// variable DEBUG has the same effect if it contains the name analytics. DEBUG is a
	// comma-separated list of names, in which * matches any text. Defaults to false.
	Verbose bool
}

// defaults contains the encoded JSON that all calls of a client share.
type defaults struct {
	batchContext []byte // the part of each body between the last call and the batch ID
	integrations *defaultIntegrations
}

// check returns the encoded defaults, or all problems of the Config and the write key.
func (cfg *Config) check(writeKey string) (d defaults, err error) {
	var errs []error
	require := func(ok bool, format string, args ...interface{}) {
		if !ok {
			errs = append(errs, fmt.Errorf("analytics: "+format, args...))
		}
	}
	_, err = batchURL(cfg.Endpoint)
	errs = append(errs, checkKey(writeKey), err)
	require(cfg.MaxInFlight >= 0 && cfg.MaxInFlight <= maxMaxInFlight, "Config.MaxInFlight is %d; it must be from 1 to %d, or 0 for the default of %d", cfg.MaxInFlight, maxMaxInFlight, defaultMaxInFlight)
	require(cfg.MaxAttempts >= 0, "Config.MaxAttempts is %d; it must be at least 1, or 0 for the default of %d", cfg.MaxAttempts, retry.DefaultAttempts)
	require(cfg.MaxTotalBackoffDuration >= 0, "Config.MaxTotalBackoffDuration is %v; it must be positive, or 0 for the default of %v", cfg.MaxTotalBackoffDuration, retry.DefaultMaxBackoff)
	require(cfg.MaxRateLimitDuration >= 0, "Config.MaxRateLimitDuration is %v; it must be positive, or 0 for the default of %v", cfg.MaxRateLimitDuration, retry.DefaultMaxRateLimit)
	_, err = settingsURL(cfg.SettingsEndpoint, writeKey)
	errs = append(errs, err)
	require(cfg.MaxBytes == 0 || cfg.MaxBytes >= minMaxBytes, "Config.MaxBytes is %d; it must be at least %d, or 0 for the default of %d", cfg.MaxBytes, minMaxBytes, defaultMaxBytes)
	require(cfg.SpoolMaxBytes == 0 || cfg.SpoolMaxBytes >= minSpoolBytes, "Config.SpoolMaxBytes is %d; it must be at least %d, or 0 for the default of %d", cfg.SpoolMaxBytes, minSpoolBytes, defaultSpoolBytes)
	require(cfg.CloseTimeout >= 0, "Config.CloseTimeout is %v; it must be positive, or 0 for the default of %v", cfg.CloseTimeout, defaultCloseTimeout)
	require(cfg.WhenFull >= Reject && cfg.WhenFull <= DropOldest, "Config.WhenFull is %d; it must be Reject, Block or DropOldest", cfg.WhenFull)
	d.batchContext, err = encodeBatchContext(cfg.Context)
	errs = append(errs, err)
	d.integrations, err = encodeIntegrations(cfg.Integrations)
	errs = append(errs, err)
	if d.integrations != nil {
		size := len(d.integrations.field)
		require(size <= MaxCallBytes, "Config.Integrations is %d bytes as JSON, and each call is limited to %d", size, MaxCallBytes)
	}
	return d, errors.Join(errs...)
}

// checkKey validates a write key. The error does not contain the key.
func checkKey(writeKey string) error {
	trimmed := strings.TrimSpace(writeKey)
	switch {
	case trimmed == "":
		return errors.New("analytics: the write key is empty; check that the variable is set, or copy the key from the settings of the source")
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

// parseURL parses the URL of a setting, which must be http or https. The error does not
// contain a password.
func parseURL(name, text, example string) (*url.URL, error) {
	protocol, host := spell.Protocol(text)
	example = cmp.Or(protocol+host, example)
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error // url.Error contains the URL, so only its Err is used
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

// batchURL returns the URL to which batches are sent.
func batchURL(endpoint string) (*url.URL, error) {
	u, err := parseURL("Endpoint", cmp.Or(endpoint, Endpoint), Endpoint)
	if err != nil {
		return nil, err
	}
	path := strings.TrimRight(u.Path, "/")
	if strings.HasSuffix(path, "/batch") || strings.HasSuffix(path, "/import") {
		return u, nil
	}
	if strings.HasSuffix(path, "/v1") { // the service's documentation shows endpoints with /v1
		return u.JoinPath("batch"), nil
	}
	return joinPath(u, "v1", "batch"), nil
}

// joinPath calls url.URL.JoinPath. For a URL without a path, JoinPath alone omits the
// leading slash.
func joinPath(u *url.URL, elements ...string) *url.URL {
	if u.Path == "" {
		u.Path = "/"
	}
	return u.JoinPath(elements...)
}

// settingsURL returns the URL of the source's settings, or nil if endpoint is empty.
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

// either returns the value of a setting that two fields represent. A field that differs from
// the default takes precedence. If both differ, the smaller value applies.
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

// orDefault returns def if v is zero or negative.
func orDefault[T int | int64 | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// newRequest returns a request with the parts that all requests share.
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
