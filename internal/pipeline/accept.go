package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// Open makes a pipeline, and opens its spool if there is one. Start starts it.
func Open(config Config) (*Pipeline, error) {
	p := newPipeline(config)
	if config.Spool == "" {
		return p, nil
	}
	return p, p.openSpool()
}

// Start starts the loop and, with a spool, its worker.
func (p *Pipeline) Start() {
	if p.spool != nil {
		go p.spool.run()
	}
	go p.run()
}

// Accept copies an encoded call into a batch, with a spool after it is on the disk. An error
// means that the call was not accepted. Only Block uses ctx.
func (p *Pipeline) Accept(ctx context.Context, c *Call) (err error) {
	if p.spool != nil {
		err = p.spool.add(ctx, c)
	} else {
		err = p.add(ctx, c)
	}
	if err == nil && p.log.verbose {
		p.log.log(ctx, queued(c.Kind, c.Encoded()))
	}
	return err
}

// Call is a call before it is accepted: a buffer with its JSON, and its id.
type Call struct {
	record spool.Record
	CallID // used only if NeedsIDs
	clock  clock
}

var calls = sync.Pool{New: func() interface{} {
	c := &Call{record: spool.Record{Buf: make([]byte, spool.HeadLen, 1024)}}
	c.record.Owner = c
	return c
}}

// NewCall returns a call from a pool.
func NewCall() *Call { return calls.Get().(*Call) }

// Release returns c to the pool.
func (c *Call) Release() {
	if c.Value != nil {
		c.Value = nil // the pool must not keep it alive
	}
	if cap(c.record.Buf) <= 2*MaxCallBytes {
		calls.Put(c)
	}
}

// Begin returns the buffer to append the call to, and the time of the call in milliseconds
// since 1970.
func (c *Call) Begin() (buf []byte, milli int64) {
	return c.record.Buf[:spool.HeadLen], c.clock.milli()
}

// End sets the buffer, after the call was appended to it.
func (c *Call) End(buf []byte) { c.record.Buf = buf }

// Encoded returns the JSON of the call.
func (c *Call) Encoded() []byte { return c.record.Body() }

// clock tells the time of calls, for half of what time.Now takes: that reads two clocks, one
// of which may be set at any time. A clock that is set is noticed within clockAge.
type clock struct {
	read time.Time
	unix int64         // of read, in nanoseconds since 1970
	age  time.Duration // since read, as milli was last called
}

// clockAge is how long only the monotonic clock is read.
const clockAge = time.Millisecond

// milli returns the time in milliseconds since 1970.
func (c *clock) milli() int64 {
	if c.age = time.Since(c.read); c.age < 0 || c.age >= clockAge {
		c.read, c.age = time.Now(), 0
		c.unix = c.read.UnixNano()
	}
	return (c.unix + int64(c.age)) / 1e6
}

// now returns the time as milli was last called.
func (c *clock) now() time.Time { return c.read.Add(c.age) }
