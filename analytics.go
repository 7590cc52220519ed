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

// Client records calls and sends them in batches in the background. Create one with New or
// NewWithConfig, and Close it before the program exits. Its methods are safe for
// concurrent use.
//
// A client starts at its first call or, with a spool, at the first use of Flush, Stats,
// Shutdown or Close. Set the exported fields only before that. New programs use Config
// instead.
type Client struct {
	// Endpoint is Config.Endpoint.
	Endpoint string

	// FlushAt is Config.FlushAt, and Size is another name for it. The field that
	// differs from the default of 20 applies; if both differ, the smaller one.
	FlushAt, Size int

	// FlushAfter is Config.FlushAfter, and Interval is another name for it. The field
	// that differs from the default of 5 seconds applies; if both differ, the smaller one.
	FlushAfter, Interval time.Duration

	// Logger is Config.Logger.
	Logger *log.Logger

	// Verbose is Config.Verbose.
	Verbose bool

	// Spool is Config.Spool.
	Spool string

	// Client is a copy of Config.HTTPClient.
	Client http.Client

	writeKey string
	config   Config   // the options without a field in Client
	defaults defaults // the field batchContext is set only if Config.Context is set
	version2 bool     // the client was created by New

	running atomic.Pointer[pipeline.Pipeline] // nil until the client has started
	reading chan struct{}                     // capacity 1; full while the configuration is locked; set by started, which every user calls first

	mu       sync.Mutex // guards the following fields
	starting *starting  // nil before the first use and after a failed start
	closed   bool
	rejected Rejects
}

// New returns a client for the source with the write key. It never fails and starts no
// goroutine. If the write key or a field is invalid, the first call returns the error. New
// is for tests and for programs that were written for version 2.
func New(writeKey string) *Client {
	c := newClient(writeKey, Config{MaxAttempts: retry.DefaultAttempts})
	c.version2 = true
	return c
}

// NewWithConfig returns a client. The error lists all problems of the write key and the
// configuration. The client starts when it is first used.
func NewWithConfig(writeKey string, config Config) (*Client, error) {
	defaults, err := config.check(writeKey)
	if err != nil {
		return nil, err
	}
	c := newClient(writeKey, config)
	c.defaults = defaults
	if config.Context == nil {
		c.defaults.batchContext = nil // DefaultContext is read at the first call
	}
	return c, nil
}

func newClient(writeKey string, config Config) *Client {
	c := &Client{
		Endpoint:   cmp.Or(config.Endpoint, Endpoint),
		FlushAt:    orDefault(config.FlushAt, defaultFlushAt),
		Size:       defaultFlushAt,
		FlushAfter: orDefault(config.FlushAfter, defaultFlushAfter),
		Interval:   defaultFlushAfter,
		Logger:     cmp.Or(config.Logger, pipeline.DefaultLogger()),
		Verbose:    config.Verbose,
		Spool:      config.Spool,
		Client:     *http.DefaultClient,
		writeKey:   writeKey,
		config:     config,
	}
	if config.HTTPClient != nil {
		c.Client = *config.HTTPClient
	}
	return c
}

// Identify queues an identify call. When it returns, the caller may change and reuse the
// message.
//
// The error is a *FieldError, a *TooLargeError, ErrQueueFull, ErrClosed, an error that
// wraps ErrSpool, or an error in the configuration. The other methods return the same
// errors.
func (c *Client) Identify(m *Identify) error { return c.Enqueue(context.Background(), m) }

// Track queues a track call. It returns the same errors as Identify.
func (c *Client) Track(m *Track) error { return c.Enqueue(context.Background(), m) }

// Page queues a page call. It returns the same errors as Identify.
func (c *Client) Page(m *Page) error { return c.Enqueue(context.Background(), m) }

// Screen queues a screen call. It returns the same errors as Identify.
func (c *Client) Screen(m *Screen) error { return c.Enqueue(context.Background(), m) }

// Group queues a group call. It returns the same errors as Identify.
func (c *Client) Group(m *Group) error { return c.Enqueue(context.Background(), m) }

// Alias queues an alias call. It returns the same errors as Identify.
func (c *Client) Alias(m *Alias) error { return c.Enqueue(context.Background(), m) }

// Enqueue queues a call of any kind. It returns the same errors as Identify, and the error
// of ctx if ctx is done before the call is queued.
//
// Enqueue waits for Config.Spool to open, for files in Config.Spool to be removed, and,
// under Block, for free memory or disk space. ctx limits this wait. If ctx is already done
// when Enqueue is called, Enqueue still waits up to a second for Config.Spool to open. It
// also waits up to a second while another goroutine's first call reads the configuration.
// ctx does not affect the delivery of a queued call. Config.Value receives ctx.
func (c *Client) Enqueue(ctx context.Context, m Call) error {
	var k call
	var err error
	switch m := m.(type) { // a type switch, because calling a method of the interface would move each message to the heap
	case *Identify:
		k, err = m.call()
	case *Track:
		k, err = m.call()
	case *Page:
		k, err = m.call()
	case *Screen:
		k, err = m.call()
	case *Group:
		k, err = m.call()
	case *Alias:
		k, err = m.call()
	default:
		err = missing(kindNone, fieldMessage)
	}
	if err != nil {
		return c.reject(err, &c.rejected.Invalid)
	}
	return c.enqueue(ctx, &k)
}

// enqueue encodes and accepts a valid call.
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

// callID returns the ID of an encoded call.
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

// reject counts a call that is not accepted and returns err. The type of err selects the
// counter. The parameter otherwise is the counter for all other types.
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

// starting is the start of a client's pipeline. It may wait for the disk. The fields
// pipeline and err are set before done is closed.
type starting struct {
	done     chan struct{}
	pipeline *pipeline.Pipeline // nil if the start failed
	err      error
}

// openGrace limits how long Stats waits for the spool to open, and how long the first calls wait
// for each other. It is also the limit for methods that receive a context that is already done.
const openGrace = time.Second

// wait returns the pipeline, or an error if ctx is done before the pipeline has started.
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
		return nil, fmt.Errorf("%w: still opening: %w", ErrSpool, ctx.Err())
	}
}

// pipeline returns the running pipeline, and starts it if necessary. After a failed start,
// the next use of the client tries again.
func (c *Client) pipeline(ctx context.Context) (*pipeline.Pipeline, error) {
	if p := c.running.Load(); p != nil {
		return p, nil
	}
	s, err := c.start(false)
	if err != nil {
		return nil, err
	}
	return s.wait(ctx)
}

// start reads the configuration and starts the pipeline, unless it has already started. If
// closing is set, start marks the client as closed. It returns nil if the client was closed
// before a pipeline was needed.
func (c *Client) start(closing bool) (*starting, error) {
	if s, err := c.started(closing); s != nil || err != nil {
		return s, err
	}
	if err := c.lockConfig(); err != nil {
		return nil, err
	}
	defer c.unlockConfig()
	// Another goroutine may have started or closed the client in the meantime.
	if s, err := c.started(closing); s != nil || err != nil || closing && c.Spool == "" {
		return s, err
	}
	config, err := c.settings()
	if err != nil {
		return nil, err
	}
	return c.startOpening(config), nil
}

// started returns the start of the pipeline, or nil if it has not been started. If closing is
// set, started marks the client as closed. Otherwise it returns ErrClosed if the client is
// closed.
func (c *Client) started(closing bool) (*starting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed && !closing {
		return nil, ErrClosed
	}
	c.closed = c.closed || closing
	if c.reading == nil {
		c.reading = make(chan struct{}, 1)
	}
	return c.starting, nil
}

// lockConfig waits until no other goroutine reads the configuration. The caller must call
// unlockConfig. Reading the configuration runs the caller's code: WrapTransport, and
// MarshalJSON of values in DefaultContext. If that code uses the client, lockConfig returns an
// error after openGrace.
func (c *Client) lockConfig() error {
	select {
	case c.reading <- struct{}{}:
		return nil
	case <-time.After(openGrace):
		return errors.New("analytics: the configuration is still being read; perhaps a MarshalJSON of DefaultContext, or WrapTransport, uses the client")
	}
}

func (c *Client) unlockConfig() { <-c.reading }

// startOpening starts a goroutine that opens the pipeline.
func (c *Client) startOpening(config pipeline.Config) *starting {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting = &starting{done: make(chan struct{})}
	go c.open(c.starting, config)
	return c.starting
}

// open creates the pipeline, opens its spool, and completes the start. If the client has
// been closed in the meantime, the pipeline accepts no calls.
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

// Flush sends the queued calls and waits until each of them is delivered or dropped, or
// until ctx is done. With a spool, the queued calls include the calls of a previous
// process, even if this client has not made a call.
//
// If calls were not delivered, the error is an *UndeliveredError. It counts the calls that
// are still queued, and all calls that were dropped since the previous Flush. If
// Config.Spool cannot be opened, Flush returns an error that wraps ErrSpool.
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

// Shutdown sends the queued calls and waits until each of them is delivered or dropped.
// With a spool, the queued calls include the calls of a previous process, even if this
// client has not made a call. Calls after Shutdown return ErrClosed.
//
// If ctx is done first, Shutdown cancels the requests and waits at most two more seconds for
// them. The remaining calls are dropped, or stay in Config.Spool.
//
// If calls were not delivered, the error is an *UndeliveredError. It includes calls that
// were being sent when ctx was done, although the collector may have accepted them. If
// Config.Spool cannot be opened, the error contains the reason.
//
// Shutdown may be called several times and concurrently. Concurrent callers return
// together with the same error. The first context that is done stops the shutdown for all
// callers. Its caller may return earlier if Config.Spool is still opening, or if Callback
// or a log writer hangs.
func (c *Client) Shutdown(ctx context.Context) error {
	s, err := c.start(true)
	if s == nil {
		return err
	}
	p, err := s.wait(ctx)
	switch {
	case p != nil:
		left, err := p.Shutdown(ctx)
		return cmp.Or(undelivered(left), err)
	case ctx.Err() != nil: // no other call of Shutdown is waiting
		go func() {
			if p, _ := s.wait(context.Background()); p != nil {
				_, _ = p.Shutdown(ctx)
			}
		}()
	}
	return err
}

// Close calls Shutdown with a timeout of Config.CloseTimeout, by default 20 seconds.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), orDefault(c.config.CloseTimeout, defaultCloseTimeout))
	defer cancel()
	return c.Shutdown(ctx)
}

// Stats counts the calls of this client and, with a spool, of previous processes. It opens
// Config.Spool if necessary, and waits at most a second for it to open.
func (c *Client) Stats() Stats {
	var s Stats
	p := c.running.Load()
	if p == nil && c.Spool != "" {
		ctx, cancel := context.WithTimeout(context.Background(), openGrace)
		p, _ = c.pipeline(ctx) // Stats reports no error; the next call returns it
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

// settings returns the configuration of the pipeline.
func (c *Client) settings() (pipeline.Config, error) {
	u, endpointErr := batchURL(c.Endpoint)
	source, sourceErr := settingsURL(c.config.SettingsEndpoint, c.writeKey)
	err := cmp.Or(checkKey(c.writeKey), endpointErr, sourceErr)
	if err != nil {
		return pipeline.Config{}, err
	}
	batchContext := c.defaults.batchContext
	if batchContext == nil {
		if batchContext, err = encodeBatchContext(nil); err != nil {
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

		WriteKey:     c.writeKey,
		BatchContext: batchContext,
		Request:      newRequest(u, c.writeKey, c.config.Gzip),
		Transport:    transport,
		Timeout:      orDefault(c.Client.Timeout, defaultTimeout),
		SourceURL:    source,
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

// backoff returns the function that computes the pauses between attempts.
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

// passTo adapts the client's callback to the pipeline's signature. callback may be nil.
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

// undelivered returns the error for the undelivered calls, or nil if all calls were delivered.
func undelivered(left *pipeline.Undelivered) error {
	if left == nil {
		return nil
	}
	return &UndeliveredError{
		Dropped: Drops(left.Dropped), Pending: left.Pending, Err: left.Err, Cause: left.Cause, spooled: left.Spooled,
	}
}

// statsOf converts the pipeline's counts. It does not set Rejected.
func statsOf(s pipeline.Stats) Stats {
	return Stats{
		Accepted: s.Accepted, Delivered: s.Delivered, Dropped: Drops(s.Dropped), Pending: s.Pending, Recovered: s.Recovered,
		Batches: s.Batches, Attempts: s.Attempts, Bytes: s.Bytes, SpoolBytes: s.SpoolBytes,
	}
}
