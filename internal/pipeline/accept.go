package pipeline

import (
	"context"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/internal/spool"
)

// Open creates a pipeline and, if configured, opens its spool. Call Start afterwards.
func Open(config Config) (*Pipeline, error) {
	p := newPipeline(config)
	if config.Spool == "" {
		return p, nil
	}
	return p, p.openSpool()
}

// Start starts the loop goroutine and, with a spool, the worker goroutine.
func (p *Pipeline) Start() {
	if p.spool != nil {
		go p.spool.run()
	}
	go p.run()
}

// Accept copies an encoded call into a batch. With a spool, it writes the call to the disk first.
// If it returns an error, the call was not accepted. ctx limits the wait under Block.
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

// Call is a call that is not accepted yet. It contains a buffer with the JSON, and the ID.
type Call struct {
	record spool.Record
	CallID // set only if NeedsIDs returns true
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
		c.Value = nil // the pool must not keep the value in memory
	}
	if cap(c.record.Buf) <= 2*MaxCallBytes {
		calls.Put(c)
	}
}

// Begin returns a buffer and the time of the call in milliseconds since 1970. The caller
// appends the JSON to the buffer and passes it to End.
func (c *Call) Begin() (buf []byte, milli int64) {
	return c.record.Buf[:spool.HeadLen], c.clock.milli()
}

// End stores the buffer with the appended JSON.
func (c *Call) End(buf []byte) { c.record.Buf = buf }

// Encoded returns the JSON of the call.
func (c *Call) Encoded() []byte { return c.record.Body() }
