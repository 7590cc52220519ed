package analytics

import (
	"context"
	"errors"
	"log"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Client records calls and sends them in batches in the background. Make one
// with New or NewWithConfig, share it among goroutines, and Close it before the
// program ends.
//
// The exported fields may be set until the first call and not later; a program
// that is written today sets a Config instead.
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
	config   Config // the options that have no field of their own here
	middle   []byte // of each batch, if Config.Context was given: see settings

	running  atomic.Pointer[pipeline] // nil until the first call
	rejected [numRejects]atomic.Int64 // calls not accepted, by kind

	mu     sync.Mutex // held while the first call starts the pipeline, and guards closed
	closed bool
}

// The kinds of calls that are not accepted.
const (
	rejectInvalid = iota
	rejectTooLarge
	rejectQueueFull
	rejectSpool
	rejectClosed
	numRejects
)

// New returns a client for the source that the write key belongs to. It never
// fails and starts nothing: what is wrong with the client's fields is an error
// of the first call.
func New(writeKey string) *Client {
	return newClient(writeKey, Config{})
}

// NewWithConfig returns a client that is set up by config, or an error that
// says all that is wrong with it. It starts nothing.
func NewWithConfig(writeKey string, config Config) (*Client, error) {
	middle, err := config.check(writeKey)
	if err != nil {
		return nil, err
	}
	c := newClient(writeKey, config)
	if config.Context != nil {
		c.middle = middle
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
		c.Logger = defaultLogger()
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
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Track queues a track call, as Identify does.
func (c *Client) Track(m *Track) error {
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Page queues a page call, as Identify does.
func (c *Client) Page(m *Page) error {
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Screen queues a screen call, as Identify does.
func (c *Client) Screen(m *Screen) error {
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Group queues a group call, as Identify does.
func (c *Client) Group(m *Group) error {
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Alias queues an alias call, as Identify does.
func (c *Client) Alias(m *Alias) error {
	k, err := m.wire()
	return c.enqueue(context.Background(), &k, err)
}

// Enqueue queues a call of any kind, as Identify does. Under Block it waits for
// room until ctx ends, and returns its error then; otherwise ctx does not
// matter. Whether the call is delivered does not depend on ctx.
func (c *Client) Enqueue(ctx context.Context, m Call) error {
	if m == nil {
		return c.reject(rejectInvalid, missing("call", fieldMessage))
	}
	k, err := m.wire()
	return c.enqueue(ctx, &k, err)
}

// scratch is a buffer that a call is encoded into.
type scratch struct {
	buf []byte // a call, behind room for what a spool writes in front of it
	id  callID // what a callback is told the call by, if there is one

	// What follows is for a spool, see pipeline.write, and guarded by its
	// writing.
	written bool  // or it could not be
	err     error // what came of it then
}

// call is the call in the buffer.
func (s *scratch) call() []byte { return s.buf[recordHead:] }

var scratches = sync.Pool{New: func() interface{} { return &scratch{buf: make([]byte, recordHead, 1024)} }}

// enqueue encodes a call that wire found to be valid, and accepts it.
func (c *Client) enqueue(ctx context.Context, k *call, invalid error) error {
	if invalid != nil {
		return c.reject(rejectInvalid, invalid)
	}
	p, err := c.pipeline()
	if err != nil {
		return c.reject(rejectKind(err, rejectInvalid), err)
	}
	now := time.Now()
	s := scratches.Get().(*scratch)
	s.buf, err = k.append(s.buf[:recordHead], now)
	switch {
	case err != nil:
		err = c.reject(rejectInvalid, err)
	case len(s.call()) > MaxCallBytes:
		err = c.reject(rejectTooLarge, &TooLargeError{Kind: k.kind, Size: len(s.call()), Limit: MaxCallBytes})
	default:
		err = p.add(ctx, k, s, now)
		if err != nil {
			err = c.reject(rejectKind(err, rejectQueueFull), err)
		} else if p.log.verbose {
			p.log.debugf("queued %s", s.call())
		}
	}
	if cap(s.buf) <= 2*MaxCallBytes {
		scratches.Put(s)
	}
	return err
}

// rejectKind is what an error is counted as, if it tells that by itself.
func rejectKind(err error, otherwise int) int {
	switch {
	case err == ErrClosed:
		return rejectClosed
	case errors.Is(err, ErrSpool):
		return rejectSpool
	}
	return otherwise
}

// reject counts a call that is not accepted, and returns why it is not.
func (c *Client) reject(kind int, why error) error {
	c.rejected[kind].Add(1)
	return why
}

// pipeline returns the running pipeline, which the first call starts with the
// configuration as it is then. While that cannot be used, each call tries
// again.
func (c *Client) pipeline() (*pipeline, error) {
	if p := c.running.Load(); p != nil {
		return p, nil
	}
	if calledFrom(startName) {
		return nil, errStarting
	}
	return c.start()
}

// start is pipeline for a client that may not have one.
func (c *Client) start() (*pipeline, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running.Load(); p != nil {
		return p, nil
	}
	if c.closed {
		return nil, ErrClosed
	}
	s, err := c.settings()
	if err != nil {
		return nil, err
	}
	p := newPipeline(s)
	if s.spoolDir != "" {
		if err := p.openSpool(); err != nil {
			return nil, err
		}
		go p.keep()
	}
	c.running.Store(p)
	go p.run()
	return p, nil
}

// Flush sends what is queued and waits until each call accepted before it is
// delivered or dropped, or ctx ends. Calls can go on being made meanwhile. What
// an earlier process left in Config.Spool is sent as well, also if no call has
// been made.
//
// The error is an *UndeliveredError that says how many calls were not
// delivered: those still queued, and all that were dropped since an earlier
// Flush returned, if there was one. If no call has been made and Config.Spool
// cannot be used, it says why, as the first call would.
func (c *Client) Flush(ctx context.Context) error {
	p := c.running.Load()
	if p == nil && c.Spool != "" {
		var err error
		if p, err = c.pipeline(); err == ErrClosed {
			return nil
		} else if err != nil {
			return err
		}
	}
	if p == nil {
		return nil
	}
	return p.flush(ctx)
}

// Shutdown sends what is queued, and waits until each call is delivered or
// dropped. When ctx ends first, requests are cut off, for which Shutdown waits
// two seconds at most, and all that is left is dropped or stays in Config.Spool.
// Calls made after Shutdown began return ErrClosed.
//
// The error is an *UndeliveredError that says how many calls were not
// delivered, as Flush does; a call that was being sent when ctx ended is among
// them, though the collector may have taken it. Shutdown can be called often
// and at the same time: each call waits for the same end and returns the same
// error, and the first context to end cuts it short.
func (c *Client) Shutdown(ctx context.Context) error {
	if c.running.Load() == nil && calledFrom(startName) {
		return errStarting
	}
	c.mu.Lock()
	c.closed = true
	p := c.running.Load()
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.shutdown(ctx)
}

// Close is Shutdown with Config.CloseTimeout, 20 seconds unless set.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), orDefault(c.config.CloseTimeout, defaultCloseTimeout))
	defer cancel()
	return c.Shutdown(ctx)
}

// Stats says what became of the calls made so far.
func (c *Client) Stats() Stats {
	var s Stats
	if p := c.running.Load(); p != nil {
		s = p.snapshot()
	}
	s.Rejected = Rejects{
		Invalid:   c.rejected[rejectInvalid].Load(),
		TooLarge:  c.rejected[rejectTooLarge].Load(),
		QueueFull: c.rejected[rejectQueueFull].Load(),
		Spool:     c.rejected[rejectSpool].Load(),
		Closed:    c.rejected[rejectClosed].Load(),
	}
	return s
}
