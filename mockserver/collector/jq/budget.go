package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// maxWork limits the work of a run in units. A unit is an instruction, or up to 8 bytes of a value
	// that a function reads. It takes about 100 ns, and at most about 200 bytes of memory.
	maxWork = 300_000
	// maxTime limits the time of a run.
	maxTime = 50 * time.Millisecond

	unit       = 8    // bytes
	maxDepth   = 1000 // of a value
	maxDigits  = 2000 // of a number
	maxPattern = 1000 // instructions of a regular expression
	// heavyFactor is the number of units that a heavy function costs for each unit of its input.
	heavyFactor = 16
	// patternFactor is the product of input bytes and pattern instructions that takes the time of a unit.
	patternFactor = 10
)

var (
	errWork   = errors.New("the program exceeds the limit of 300,000 instructions for this call, where 8 bytes of data count as an instruction")
	errTime   = fmt.Errorf("the program did not end within %v; %w", maxTime, webhook.ErrRetryTransform)
	errDepth  = fmt.Errorf("a value is nested more than %d levels deep", maxDepth)
	errDigits = fmt.Errorf("a number has more than %d digits", maxDigits)
)

// A budget is a context that ends a run at its limits. The interpreter calls Done before each
// instruction. The work limit has the same effect in each run for the same call, and also limits the
// memory. The time limit can end a program within the work limit on a busy machine.
type budget struct {
	context.Context
	end      time.Time
	steps    int // instructions
	work     int
	err      error
	patterns map[[2]string]*pattern
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done charges for an instruction. It returns a closed channel if a limit is exceeded.
func (b *budget) Done() <-chan struct{} {
	b.spend(1)
	if b.steps++; b.steps%64 == 0 && time.Now().After(b.end) {
		b.fail(errTime)
	}
	if b.err != nil {
		return closed
	}
	return nil
}

// Err returns the exceeded limit, or nil.
func (b *budget) Err() error { return b.err }

func (b *budget) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *budget) spend(units int) {
	if b.work += units; b.work > maxWork {
		b.fail(errWork)
	}
}

// charge charges for reading a value, and returns its size in units.
func (b *budget) charge(v any) (size int) {
	before := b.work
	b.read(v, maxDepth)
	return b.work - before
}

func (b *budget) read(v any, depth int) {
	if depth == 0 {
		b.fail(errDepth)
	}
	if b.spend(1); b.err != nil {
		return
	}
	switch v := v.(type) {
	case string:
		b.spend(len(v) / unit)
	case json.Number:
		b.digits(len(v))
	case *big.Int:
		b.digits(v.BitLen() / 3)
	case []any:
		for _, e := range v {
			b.read(e, depth-1)
		}
	case map[string]any:
		for key, e := range v {
			b.spend(len(key) / unit)
			b.read(e, depth-1)
		}
	}
}

func (b *budget) digits(n int) {
	if b.spend(n / unit); n > maxDigits {
		b.fail(errDigits)
	}
}

// guards returns the functions that guardProgram adds.
func (b *budget) guards() []gojq.CompilerOption {
	guard := func(name string, charge func(v any)) gojq.CompilerOption {
		return gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			charge(v)
			return v
		})
	}
	options := []gojq.CompilerOption{
		guard(chargeFunc, func(v any) { b.charge(v) }),
		guard(heavyFunc, func(v any) { b.spend(b.charge(v) * heavyFactor) }),
		guard(indexFunc, b.index),
		guard(numberFunc, func(v any) {
			if s, ok := v.(string); ok {
				b.digits(len(s))
			}
		}),
		gojq.WithFunction(patternFunc, 2, 2, func(v any, args []any) any {
			b.match(v, [2]string{args[0].(string), args[1].(string)})
			return v
		}),
	}
	for name, code := range pairs {
		options = append(options, gojq.WithFunction("%"+name, 2, 2, func(_ any, args []any) any { return b.pair(code, args[0], args[1]) }))
	}
	return options
}

// index charges for the length of the array that an index, or the indices of a path, can create.
func (b *budget) index(v any) {
	path, ok := v.([]any)
	if !ok {
		path = []any{v}
	}
	for _, p := range path {
		b.charge(p)
		if n, ok := gojq.ToInt(p); ok && n > 0 {
			b.spend(min(n, maxWork))
		}
	}
}

// pairs contains the operators and functions whose time can grow with the product of the sizes of their
// two operands, as programs with the variables $l and $r.
var pairs = map[string]*gojq.Code{
	"*": native("$l * $r"), "-": native("$l - $r"),
	"contains": native("$l | contains($r)"), "inside": native("$l | inside($r)"), "join": native("$l | join($r)"),
	"index": native("$l | index($r)"), "rindex": native("$l | rindex($r)"), "indices": native("$l | indices($r)"),
}

func native(source string) *gojq.Code {
	q, err := gojq.Parse(source)
	if err != nil {
		panic(err)
	}
	code, err := gojq.Compile(q, gojq.WithVariables([]string{"$l", "$r"}))
	if err != nil {
		panic(err)
	}
	return code
}

// pair charges for an operation, and returns its result.
func (b *budget) pair(code *gojq.Code, l, r any) any {
	work := b.charge(l) * b.charge(r)
	_, lText := l.(string)
	_, rText := r.(string)
	if lText && rText { // compares characters
		work *= unit * unit
	}
	for _, v := range [][2]any{{l, r}, {r, l}} {
		if s, ok := v[0].(string); ok { // a product is a repeated string
			n, _ := gojq.ToInt(v[1])
			work = max(work, min(n, unit*maxWork)*len(s))
		}
	}
	if b.spend(work / unit); b.err != nil {
		return nil
	}
	v, _ := code.Run(nil, l, r).Next()
	return v
}

// A pattern is a compiled regular expression.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// newPattern compiles a regular expression like the interpreter.
func newPattern(source, flags string) (*pattern, error) {
	for flag, prefix := range map[string]string{"i": "(?i)", "m": "(?s)"} {
		if strings.Contains(flags, flag) {
			source = prefix + source
		}
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression: %w", short(err))
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("invalid regular expression: %w", short(err))
	}
	if len(program.Inst) > maxPattern {
		return nil, fmt.Errorf("a regular expression is too large: it has %d instructions; the limit is %d", len(program.Inst), maxPattern)
	}
	re, err := regexp.Compile(source)
	return &pattern{re, len(program.Inst)}, err
}

// match charges for matching a value with a regular expression and its flags. The value itself is
// already charged. For each match, the interpreter counts the characters before it.
func (b *budget) match(v any, source [2]string) {
	s, ok := v.(string)
	if !ok {
		return
	}
	p := b.patterns[source]
	if p == nil {
		var err error
		if p, err = newPattern(source[0], source[1]); err != nil {
			return // the interpreter reports it
		}
		b.patterns[source] = p
	}
	b.spend(len(s) * p.size / patternFactor)
	perMatch := (len(s)/(3*unit) + 1) * (p.size/unit + 1)
	if b.spend(perMatch); b.err == nil && strings.Contains(source[1], "g") {
		b.spend(perMatch * len(p.FindAllStringIndex(s, maxWork/perMatch+1)))
	}
}
