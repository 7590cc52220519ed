package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/itchyny/gojq"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Limits of programs.
const (
	maxProgram = 16 << 10  // bytes of a program
	maxOutput  = 256 << 10 // bytes of a transformed body
	maxTime    = 50 * time.Millisecond
	maxReason  = 200 // bytes of an error of the interpreter

	// abandonAfter limits a run whose current instruction does not end. The run continues in the
	// background until the instruction ends.
	abandonAfter = 90 * time.Millisecond
	// maxAbandoned is the number of runs of a program in the background that stops new runs.
	maxAbandoned = 2
	// maxSteps limits the instructions of a run, and with it the memory of a run: an instruction
	// that creates values rarely needs more than 100 bytes.
	maxSteps = 1_000_000
)

var (
	errTime  = fmt.Errorf("the program takes more than %v", maxTime)
	errSteps = errors.New("the program takes more than 1,000,000 steps")
	errBusy  = errors.New("earlier runs of the program have not ended after their time limit; change the program, and replay the call")
)

// Compile compiles a program. The transform is safe for concurrent use.
func Compile(source string) (webhook.Transform, error) {
	if len(source) > maxProgram {
		return nil, fmt.Errorf("has %d bytes; the limit is %d", len(source), maxProgram)
	}
	query, err := gojq.Parse(source)
	if err != nil {
		return nil, short(err)
	}
	if err := guardProgram(query); err != nil {
		return nil, err
	}
	code, err := gojq.Compile(query, guards()...)
	if err != nil {
		return nil, short(err)
	}
	p := &program{code: code}
	return p.transform, nil
}

func short(err error) error { return errors.New(text.CutBytes(maxReason, err.Error())) }

// A program is a compiled program.
type program struct {
	code      *gojq.Code
	abandoned atomic.Int32 // runs in the background
}

// transform runs the program in a goroutine, because an instruction cannot be interrupted.
func (p *program) transform(body []byte) ([]byte, error) {
	if p.abandoned.Load() >= maxAbandoned {
		return nil, errBusy
	}
	type result struct {
		body []byte
		err  error
	}
	results := make(chan result, 1)
	go func() {
		body, err := run(p.code, body)
		results <- result{body, err}
	}()
	timeout := time.NewTimer(abandonAfter)
	defer timeout.Stop()
	select {
	case r := <-results:
		return r.body, r.err
	case <-timeout.C:
		p.abandoned.Add(1)
		go func() {
			<-results
			p.abandoned.Add(-1)
		}()
		return nil, errTime
	}
}

// run returns the only result of the program in canonical form, or nil without a result.
func run(code *gojq.Code, body []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("the interpreter failed: %s", text.CutBytes(maxReason, fmt.Sprint(p)))
		}
	}()
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber() // keeps the digits
	var call any
	if err := decoder.Decode(&call); err != nil {
		return nil, short(err)
	}
	results := code.RunWithContext(&budget{Context: context.Background(), end: time.Now().Add(maxTime)}, call)
	value, ok := results.Next()
	if !ok {
		return nil, nil
	}
	if err, failed := value.(error); failed {
		return nil, short(err)
	}
	if second, more := results.Next(); more {
		if err, failed := second.(error); failed {
			return nil, short(err)
		}
		return nil, errors.New("the program has more than one result; use [ ] to collect the results, or first( )")
	}
	return encode(value)
}

// encode returns a result in canonical form.
func encode(value any) ([]byte, error) {
	if err := check(value, maxOutput); err != nil {
		return nil, fmt.Errorf("the result is too large: %w", err)
	}
	body, err := gojq.Marshal(value)
	if err != nil {
		return nil, short(err)
	}
	if body, err = webhook.Canonical(nil, body); err != nil {
		return nil, short(err)
	}
	if len(body) > maxOutput {
		return nil, fmt.Errorf("the result is too large: it has %d bytes; the limit is %d", len(body), maxOutput)
	}
	return body, nil
}

// A budget is a context that ends a run. The interpreter calls Done before each instruction.
type budget struct {
	context.Context
	end   time.Time
	steps int
	err   error
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done counts an instruction, and returns a closed channel after the limit.
func (b *budget) Done() <-chan struct{} {
	b.steps++
	switch {
	case b.err != nil:
	case b.steps > maxSteps:
		b.err = errSteps
	case b.steps%64 == 0 && time.Now().After(b.end):
		b.err = errTime
	default:
		return nil
	}
	return closed
}

// Err returns the exceeded limit, or nil.
func (b *budget) Err() error { return b.err }
