package analytics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
	"github.com/seed-45eadc4a/analytics-go/internal/retry"
)

// Client records calls and sends them in batches in the background. Make one
// with New or NewWithConfig, share it among goroutines, and Close it before the
// program ends.
//
// The exported fields may be set before the first use of the client, and not later;
// new programs set a Config instead. A client starts with its first use: a call or,
// with a spool, also Flush, Stats, Shutdown or Close.
type Client struct {
	// Endpoint is Config.Endpoint.
	Endpoint string

	// FlushAt is Config.FlushAt, and Size an older name of it. The one that is
	// not at its default of 20 counts; if neither is, the smaller one does.
	FlushAt, Size int

	// FlushAfter is Config.FlushAfter, and Interval an older name of it. The
	// one that is not at its default of 5 seconds counts; if neither is, the
	// smaller one does.
	FlushAfter, Interval time.Duration

	// Logger is Config.Logger.
	Logger *log.Logger

	// Verbose is Config.Verbose.
	Verbose bool

	// Spool is Config.Spool.
	Spool string

	// Client is what Config.HTTPClient points to.
	Client http.Client

	writeKey string
	config   Config   // the options that have no field of their own here
	defaults defaults // its middle only if Config.Context was given
	version2 bool     // made by New

	running atomic.Pointer[pipeline.Pipeline] // nil until it has started

	mu       sync.Mutex    // guards what follows
	reading  chan struct{} // closed when the configuration has been read; nil if no call reads it
	starting *starting     // nil before the first use, and after a start that failed
	closed   bool
	rejected Rejects
}

// New returns a client for the source of the write key. It never fails and starts
// nothing: a wrong write key, or a wrong field of the client, is an error of the first
// call. It is for programs written for version 2, and for tests.
func New(writeKey string) *Client {
	c := newClient(writeKey, Config{MaxAttempts: retry.DefaultAttempts})
	c.version2 = true
	return c
}

// NewWithConfig returns a client with a configuration, or an error that lists all that
// is wrong with it. It starts nothing: see Client for what does.
func NewWithConfig(writeKey string, config Config) (*Client, error) {
	defaults, err := config.check(writeKey)
	if err != nil {
		return nil, err
	}
	c := newClient(writeKey, config)
	c.defaults = defaults
	if config.Context == nil {
		c.defaults.middle = nil // DefaultContext is read at the first call
	}
	return c, nil
}

func newClient(writeKey string, config Config) *Client {
	c := &Client{
		Endpoint:   config.Endpoint,
		FlushAt:    orDefault(config.FlushAt, defaultFlushAt),
		Size:       defaultFlushAt,
		FlushAfter: orDefault(config.FlushAfter, defaultFlushAfter),
		Interval:   defaultFlushAfter,
		Logger:     config.Logger,
		Verbose:    config.Verbose,
		Spool:      config.Spool,
		Client:     *http.DefaultClient,
		writeKey:   writeKey,
		config:     config,
	}
	if c.Endpoint == "" {
		c.Endpoint = Endpoint
	}
	if c.Logger == nil {
		c.Logger = pipeline.DefaultLogger()
	}
	if config.HTTPClient != nil {
		c.Client = *config.HTTPClient
	}
	return c
}

// Identify queues an identify call. It returns once the call is accepted; the
// message can be changed and used again at once.
//
// The error is a *FieldError, a *TooLargeError, ErrQueueFull, ErrClosed, an
// ErrSpool, or says what cannot be used of the client's configuration. So it is with
// the other calls.
func (c *Client) Identify(m *Identify) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Track queues a track call, as Identify does.
func (c *Client) Track(m *Track) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Page queues a page call, as Identify does.
func (c *Client) Page(m *Page) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Screen queues a screen call, as Identify does.
func (c *Client) Screen(m *Screen) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Group queues a group call, as Identify does.
func (c *Client) Group(m *Group) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Alias queues an alias call, as Identify does.
func (c *Client) Alias(m *Alias) error {
	if err := m.check(); err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	k := m.wire()
	return c.enqueue(context.Background(), &k)
}

// Enqueue queues a call of any kind, as Identify does. It returns the error of ctx if
// ctx ends while Enqueue waits: for room under Block, for Config.Spool to be opened (a
// second if ctx had ended before), or for files in it to be removed to make room for the
// call. Whether the call is delivered does not depend on ctx. Config.Value, if set, takes
// from ctx what is kept beside the call.
func (c *Client) Enqueue(ctx context.Context, m Call) error {
	var k call
	var err error
	switch m := m.(type) { // not by the interface's methods, with which each message would be on the heap
	case *Identify:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	case *Track:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	case *Page:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	case *Screen:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	case *Group:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	case *Alias:
		if err = m.check(); err == nil {
			k = m.wire()
		}
	default:
		err = missing(kindNone, fieldMessage)
	}
	if err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	return c.enqueue(ctx, &k)
}

// enqueue encodes a valid call, and accepts it.
func (c *Client) enqueue(ctx context.Context, k *call) error {
	p, err := c.pipeline(ctx)
	if err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	s := pipeline.NewCall()
	k.defaults = c.defaults.integrations
	buf, err := k.append(s.Begin())
	s.End(buf)
	switch encoded := s.Encoded(); {
	case err != nil:
		err = c.reject(err, &c.rejected.Invalid)
	case len(encoded) > MaxCallBytes:
		err = c.reject(tooLarge(k.kind, encoded), &c.rejected.TooLarge)
	default:
		if p.NeedsIDs() {
			s.CallID = c.callID(ctx, k, buf)
		}
		if err = p.Accept(ctx, s); err != nil {
			err = c.reject(err, &c.rejected.QueueFull)
		}
	}
	s.Release()
	return err
}

// callID returns the id of a call that has been encoded.
func (c *Client) callID(ctx context.Context, k *call, encoded []byte) pipeline.CallID {
	id := pipeline.CallID{Kind: k.kind.String()}
	if c.config.Callback != nil {
		id.ID = k.id(encoded)
	}
	if c.config.Value != nil {
		id.Value = c.config.Value(ctx)
	}
	return id
}

// reject counts a call that is not accepted, by the kind of its error, or as otherwise
// if the error does not show it. It returns the error.
func (c *Client) reject(err error, otherwise *int64) error {
	kind := otherwise
	switch {
	case err == ErrClosed:
		kind = &c.rejected.Closed
	case errors.Is(err, ErrSpool):
		kind = &c.rejected.Spool
	case errors.As(err, new(*TooLargeError)):
		kind = &c.rejected.TooLarge
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*kind++
	return err
}

// starting is the start of the pipeline of a client, which may wait for the disk. The
// other fields are set before done is closed.
type starting struct {
	done     chan struct{}
	pipeline *pipeline.Pipeline // nil if it failed
	err      error
}

// openGrace is how long Stats, and methods whose context had ended before, wait for a
// spool to be opened. They do not wait for a collector or for room, but find a spool
// that opens fast.
const openGrace = time.Second

// wait waits for the pipeline until ctx ends.
func (s *starting) wait(ctx context.Context) (*pipeline.Pipeline, error) {
	end := ctx.Done()
	if ctx.Err() != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), openGrace)
		defer cancel()
		end = grace.Done()
	}
	select {
	case <-s.done:
		return s.pipeline, s.err
	case <-end:
		return nil, fmt.Errorf("%w: it is still being opened: %w", ErrSpool, ctx.Err())
	}
}

// pipeline returns the running pipeline. The first use of the client starts it with the
// configuration of that time. After a start that failed, each use tries again.
func (c *Client) pipeline(ctx context.Context) (*pipeline.Pipeline, error) {
	if p := c.running.Load(); p != nil {
		return p, nil
	}
	s, err := c.start(ctx, false)
	if err != nil {
		return nil, err
	}
	return s.wait(ctx)
}

// start reads the configuration and starts the pipeline, unless that was done. If closing,
// it marks the client as closed, and returns nil if there is nothing to wait for.
//
// The configuration is read without the lock, since it calls the caller's code:
// WrapTransport and each MarshalJSON of DefaultContext. If that code uses the client, it
// gets an error after openGrace.
func (c *Client) start(ctx context.Context, closing bool) (*starting, error) {
	for {
		c.mu.Lock()
		if c.closed && !closing {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		c.closed = c.closed || closing
		reading := c.reading
		if c.starting != nil || reading == nil && closing && c.Spool == "" {
			defer c.mu.Unlock()
			return c.starting, nil
		}
		if reading == nil {
			break
		}
		c.mu.Unlock()
		select {
		case <-reading:
		case <-ctx.Done():
			return nil, fmt.Errorf("analytics: the configuration is still being read: %w", ctx.Err())
		case <-time.After(openGrace):
			return nil, errors.New("analytics: the configuration is still being read; perhaps a MarshalJSON of DefaultContext, or WrapTransport, uses the client")
		}
	}
	c.reading = make(chan struct{})
	c.mu.Unlock()
	defer c.mu.Unlock()
	config, err := c.read()
	if err != nil {
		return nil, err
	}
	c.starting = &starting{done: make(chan struct{})}
	go c.open(c.starting, config)
	return c.starting, nil
}

// read reads the configuration, and locks mu at its end, even if the caller's code ends
// the goroutine.
func (c *Client) read() (pipeline.Config, error) {
	defer func() {
		c.mu.Lock()
		close(c.reading)
		c.reading = nil
	}()
	return c.settings()
}

// open makes the pipeline, opens the spool if there is one, and ends a start. A client
// that was closed meanwhile accepts no call.
func (c *Client) open(s *starting, config pipeline.Config) {
	p, err := pipeline.Open(config)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(s.done)
	if s.err = err; err != nil {
		c.starting = nil
		return
	}
	if c.closed {
		p.Close()
	}
	s.pipeline = p
	c.running.Store(p)
	p.Start()
}

// Flush sends what is queued and waits until each call accepted before it is
// delivered or dropped, or ctx ends. Calls can be made meanwhile. Calls that an earlier
// process left in Config.Spool are sent as well, even if no call has been made.
//
// The error is an *UndeliveredError that says how many calls were not
// delivered: those still queued, and all that were dropped since an earlier
// Flush returned, if there was one. If no call has been made and Config.Spool
// cannot be used, it says why, as the first call would.
func (c *Client) Flush(ctx context.Context) error {
	p := c.running.Load()
	if p == nil && c.Spool != "" {
		var err error
		if p, err = c.pipeline(ctx); err == ErrClosed {
			return nil
		} else if err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	return undelivered(p.Flush(ctx))
}

// Shutdown sends what is queued, and waits until each call is delivered or
// dropped. When ctx ends first, requests are cut off, for which Shutdown waits
// two seconds at most, and all that is left is dropped or stays in Config.Spool.
// Calls made after Shutdown began return ErrClosed. Calls that an earlier process left
// in Config.Spool are sent as well, even if the client has not been used.
//
// The error is an *UndeliveredError that says how many calls were not
// delivered, as Flush does; a call that was being sent when ctx ended is among
// them, though the collector may have taken it. Shutdown can be called often
// and at the same time: each call waits for the same end and returns the same
// error, and the first context to end cuts it short. If the client has not been
// used and Config.Spool cannot be opened, in time or at all, the error says why.
func (c *Client) Shutdown(ctx context.Context) error {
	s, err := c.start(ctx, true)
	if s == nil {
		return err
	}
	p, err := s.wait(ctx)
	switch {
	case p != nil:
		left, err := p.Shutdown(ctx)
		return cmp.Or(undelivered(left), err)
	case ctx.Err() != nil: // ended, so that there is no other wait
		go func() {
			if p, _ := s.wait(context.Background()); p != nil {
				_, _ = p.Shutdown(ctx)
			}
		}()
	}
	return err
}

// Close is Shutdown with Config.CloseTimeout, 20 seconds unless set.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), orDefault(c.config.CloseTimeout, defaultCloseTimeout))
	defer cancel()
	return c.Shutdown(ctx)
}

// Stats counts what became of the calls made so far, and of those that an earlier
// process left in Config.Spool. It opens the spool if nothing has, and waits for that no
// longer than a second.
func (c *Client) Stats() Stats {
	var s Stats
	p := c.running.Load()
	if p == nil && c.Spool != "" {
		ctx, cancel := context.WithTimeout(context.Background(), openGrace)
		p, _ = c.pipeline(ctx) // if it cannot be opened, a call says why
		cancel()
	}
	if p != nil {
		s = statsOf(p.Stats())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Rejected = c.rejected
	return s
}

// settings parses the fields of the client.
func (c *Client) settings() (pipeline.Config, error) {
	if err := checkKey(c.writeKey); err != nil {
		return pipeline.Config{}, err
	}
	u, err := batchURL(c.Endpoint)
	if err != nil {
		return pipeline.Config{}, err
	}
	source, err := settingsURL(c.config.SettingsEndpoint, c.writeKey)
	if err != nil {
		return pipeline.Config{}, err
	}
	middle := c.defaults.middle
	if middle == nil {
		if middle, err = appendMiddle(nil, nil); err != nil {
			return pipeline.Config{}, err
		}
	}
	maxInFlight := orDefault(c.config.MaxInFlight, defaultMaxInFlight)
	transport, err := pipeline.NewTransport(c.Client, maxInFlight, c.config.WrapTransport)
	return pipeline.Config{
		FlushAt:       either(c.Size, c.FlushAt, defaultFlushAt),
		FlushAfter:    either(c.Interval, c.FlushAfter, defaultFlushAfter),
		MaxInFlight:   maxInFlight,
		MaxBytes:      orDefault(c.config.MaxBytes, defaultMaxBytes),
		WhenFull:      pipeline.FullPolicy(c.config.WhenFull),
		Spool:         c.Spool,
		SpoolSync:     c.config.SpoolSync,
		SpoolMaxBytes: orDefault(c.config.SpoolMaxBytes, defaultSpoolBytes),
		Gzip:          c.config.Gzip,

		WriteKey:  c.writeKey,
		Middle:    middle,
		Request:   newRequest(u, c.writeKey, c.config.Gzip),
		Transport: transport,
		Timeout:   orDefault(c.Client.Timeout, defaultTimeout),
		SourceURL: source,
		Policy: retry.Policy{
			Attempts:     orDefault(c.config.MaxAttempts, retry.DefaultAttempts),
			Persist:      c.config.MaxAttempts == 0 || c.Spool != "",
			Backoff:      c.backoff(),
			Exact:        c.config.Backoff != nil,
			MaxBackoff:   orDefault(c.config.MaxTotalBackoffDuration, retry.DefaultMaxBackoff),
			MaxRateLimit: orDefault(c.config.MaxRateLimitDuration, retry.DefaultMaxRateLimit),
		},

		Logger:  c.Logger,
		Slog:    c.config.Slog,
		Verbose: c.Verbose,

		Callback: passTo(c.config.Callback),
		Values:   c.config.Value != nil,
	}, err
}

// backoff returns how long failed batches wait.
func (c *Client) backoff() func(retries int) time.Duration {
	switch {
	case c.config.Backoff != nil:
		return c.config.Backoff
	case Backo != nil && (c.version2 || Backo != version2Backo):
		return Backo.Duration
	case c.version2:
		return version2Backo.Duration
	}
	return retry.DefaultBackoff()
}

// passTo adapts a callback, which may be nil, for the pipeline.
func passTo(callback func(Result)) func(pipeline.CallID, *pipeline.Drop) {
	if callback == nil {
		return nil
	}
	return func(id pipeline.CallID, why *pipeline.Drop) {
		end := Result{MessageId: id.ID, Type: id.Kind, Value: id.Value}
		if why != nil {
			end.Err = &DropError{Reason: DropReason(why.Reason), Attempts: why.Attempts, Status: why.Status, Err: why.Err}
		}
		callback(end)
	}
}

// undelivered returns the error of a flush; nil means that every call was delivered.
func undelivered(left *pipeline.Undelivered) error {
	if left == nil {
		return nil
	}
	return &UndeliveredError{
		Dropped: Drops(left.Dropped), Pending: left.Pending, Err: left.Err, Cause: left.Cause, spooled: left.Spooled,
	}
}

// statsOf converts the counts of a pipeline. It leaves Rejected zero.
func statsOf(s pipeline.Stats) Stats {
	return Stats{
		Accepted: s.Accepted, Delivered: s.Delivered, Dropped: Drops(s.Dropped), Pending: s.Pending, Recovered: s.Recovered,
		Batches: s.Batches, Attempts: s.Attempts, Bytes: s.Bytes, SpoolBytes: s.SpoolBytes,
	}
}
