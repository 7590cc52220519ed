package jq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/itchyny/gojq"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	maxProgram = 16 << 10  // bytes of a program
	maxOutput  = 256 << 10 // bytes of a transformed body
	maxReason  = 200       // bytes of an error of the interpreter
)

// Compile compiles a program. The transform is safe for concurrent use.
func Compile(source string) (webhook.Transform, error) {
	if len(source) > maxProgram {
		return nil, fmt.Errorf("has %d bytes; the limit is %d", len(source), maxProgram)
	}
	query, err := gojq.Parse(source)
	switch {
	case err == nil:
	case err.Error() == "unexpected EOF":
		return nil, errors.New("unexpected end of the program")
	default:
		return nil, short(err)
	}
	if err := guardProgram(query); err != nil {
		return nil, err
	}
	first, err := newMachine(query)
	if err != nil {
		return nil, err
	}
	idle := &sync.Pool{New: func() any {
		m, _ := newMachine(query) // first shows that it compiles
		return m
	}}
	idle.Put(first)
	return func(body []byte) ([]byte, error) {
		m := idle.Get().(*machine)
		defer idle.Put(m)
		return m.run(body)
	}, nil
}

func short(err error) error { return errors.New(text.CutBytes(maxReason, err.Error())) }

// A machine runs a program. It cannot be used concurrently, because the guards of its program charge its
// budget.
type machine struct {
	code    *gojq.Code
	maxTime time.Duration
	budget
}

func newMachine(query *gojq.Query) (*machine, error) {
	m := &machine{maxTime: maxTime, budget: budget{Context: context.Background(), patterns: map[[2]string]*pattern{}}}
	var err error
	if m.code, err = gojq.Compile(query, m.guards()...); err != nil {
		return nil, short(err)
	}
	return m, nil
}

// run returns the only result of the program in canonical form, or nil without a result.
func (m *machine) run(body []byte) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("the interpreter failed: %s", text.CutBytes(maxReason, fmt.Sprint(p)))
		}
	}()
	call, err := decode(body)
	if err != nil {
		return nil, short(err)
	}
	m.steps, m.work, m.err, m.end = 0, 0, nil, time.Now().Add(m.maxTime)
	results := m.code.RunWithContext(&m.budget, call)
	value, ok := results.Next()
	if !ok {
		return nil, nil
	}
	if err, failed := value.(error); failed {
		return nil, m.reason(err)
	}
	second, more := results.Next()
	if err, failed := second.(error); failed {
		return nil, m.reason(err)
	}
	if more {
		return nil, errors.New("the program has more than one result; use [...] to collect the results, or first(...)")
	}
	return m.encode(value)
}

// reason returns the error of a run.
func (m *machine) reason(err error) error {
	if m.err != nil {
		return m.err
	}
	return short(err)
}

// encode returns a result in canonical form.
func (m *machine) encode(value any) ([]byte, error) {
	if m.charge(value); m.err != nil {
		return nil, m.err
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
