package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// Limits of values.
const (
	maxValue    = 512 << 10 // approximate size of an operand, an argument, or the input of a function
	maxCompared = 16 << 10  // of an array or object whose values are compared with all values of another
	maxSmall    = 1000      // the same for separators, regular expressions and date formats
	maxIndex    = 65_535    // of an array
	maxDepth    = 1000      // of a value
	maxDigits   = 2000      // of a number
	nodeSize    = 16        // size of a value without its content
)

// denied contains the functions that read input, write output, show the interpreter, or can create a
// large value or need a long time for a small value.
var denied = []string{
	"input", "inputs", "debug", "stderr", "input_filename", "input_line_number", "env", "halt", "halt_error",
	"modulemeta", "get_search_list", "builtins", "fromstream", "transpose", "jn", "yn",
}

// argumentGuards contains the guards of first arguments that need a stricter check.
var argumentGuards = map[string]string{
	"setpath": "_path", "getpath": "_path", "nth": "_path",
	"join": "_small", "strftime": "_format", "strflocaltime": "_format",
	"test": "_small", "match": "_small", "capture": "_small", "scan": "_small", "split": "_small", "splits": "_small", "sub": "_small", "gsub": "_small",
	"contains": "_compared", "inside": "_compared", "index": "_compared", "rindex": "_compared", "indices": "_compared",
}

// cheap contains functions that need no check of their input.
var cheap = []string{"empty", "not", "type", "has", "select", "map", "first", "last", "range", "limit", "values"}

// quadratic contains functions that compare each value of their input with each value of an array.
var quadratic = []string{"contains", "inside", "index", "rindex", "indices"}

// guardProgram adds the checks to a program. It returns an error if the program uses a function that
// is not available.
func guardProgram(q *gojq.Query) error { return visit(reflect.ValueOf(q)) }

// visit adds the checks to all parts of a program, inner parts first.
func visit(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if err := visit(v.Elem()); err != nil {
			return err
		}
		switch part := v.Interface().(type) {
		case *gojq.Query:
			return guardOperands(part)
		case *gojq.Term:
			return guardTerm(part)
		case *gojq.Index:
			part.Start, part.End = guarded(part.Start, "_path"), guarded(part.End, "_path")
		case *gojq.String:
			for i, q := range part.Queries {
				if q.Term == nil || q.Term.Str == nil { // not a literal
					part.Queries[i] = &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: guarded(q, "_check")}}
				}
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := visit(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := visit(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// guarded returns q | guard, or nil without a query.
func guarded(q *gojq.Query, guard string) *gojq.Query {
	if q == nil {
		return nil
	}
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: call(guard)}
}

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

// factor is the variable for the right operand of *=.
const factor = "$__factor"

func guardOperands(q *gojq.Query) error {
	if len(q.Imports) > 0 || q.Meta != nil {
		return errors.New("modules are not available; remove import, include and module")
	}
	switch q.Op {
	case gojq.OpMul:
		product := call("_product", guarded(q.Left, "_check"), guarded(q.Right, "_check"))
		q.Left, q.Right, q.Op, q.Term = nil, nil, 0, product.Term
	case gojq.OpUpdateMul: // l *= r is r as $f | l |= . * $f
		update := &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: call("_product", guarded(identity(), "_check"), call(factor))}
		right := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: guarded(q.Right, "_check")}}
		q.Left, q.Op, q.Right, q.Patterns = right, gojq.OpPipe, update, []*gojq.Pattern{{Name: factor}}
	case gojq.OpSub:
		q.Left, q.Right = guarded(q.Left, "_compared"), guarded(q.Right, "_compared")
	case gojq.OpAdd, gojq.OpDiv, gojq.OpMod, gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		q.Left, q.Right = guarded(q.Left, "_check"), guarded(q.Right, "_check")
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateDiv, gojq.OpUpdateMod:
		q.Right = guarded(q.Right, "_check")
	}
	return nil
}

// guardTerm adds checks to the call of a function or a format.
func guardTerm(t *gojq.Term) error {
	inner := &gojq.Term{Type: t.Type, Func: t.Func, Format: t.Format}
	switch t.Type {
	case gojq.TermTypeFunc:
		name := t.Func.Name
		if strings.HasPrefix(name, "$") {
			return nil
		}
		if strings.HasPrefix(name, "_") || slices.Contains(denied, name) {
			return fmt.Errorf("the function %.50s is not available", name)
		}
		if name == "add" && len(t.Func.Args) == 1 { // the built-in definition has no check
			collected := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: t.Func.Args[0]}}}
			t.Type, t.Func, t.Query = gojq.TermTypeQuery, nil, &gojq.Query{Left: guarded(collected, "_check"), Op: gojq.OpPipe, Right: call("add")}
			return nil
		}
		for i, arg := range t.Func.Args {
			guard := "_check"
			if i == 0 && argumentGuards[name] != "" {
				guard = argumentGuards[name]
			}
			t.Func.Args[i] = guarded(arg, guard)
		}
		if slices.Contains(cheap, name) {
			return nil
		}
	case gojq.TermTypeFormat:
		if t.Str != nil { // the interpolated values are checked
			return nil
		}
	default:
		return nil
	}
	t.Type, t.Func, t.Format = gojq.TermTypeQuery, nil, ""
	input := "_check"
	if inner.Func != nil && slices.Contains(quadratic, inner.Func.Name) {
		input = "_compared"
	}
	t.Query = &gojq.Query{Left: call(input), Op: gojq.OpPipe, Right: &gojq.Query{Term: inner}}
	return nil
}

// guards defines the functions that check values.
func guards() []gojq.CompilerOption {
	guard := func(name string, check func(v any) error) gojq.CompilerOption {
		return gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
			if err := check(v); err != nil {
				return err
			}
			return v
		})
	}
	return []gojq.CompilerOption{
		guard("_check", func(v any) error { return check(v, maxValue) }),
		guard("_small", func(v any) error { return check(v, maxSmall) }),
		guard("_compared", func(v any) error {
			if _, isText := v.(string); isText {
				return check(v, maxValue)
			}
			return check(v, maxCompared)
		}),
		guard("_format", checkFormat),
		guard("_path", checkPath),
		gojq.WithFunction("_product", 2, 2, func(_ any, args []any) any { return product(args[0], args[1]) }),
	}
}

// check returns an error if a value is larger than limit, nested too deeply, or contains a number with
// too many digits.
func check(v any, limit int) error { return checkWithin(v, &limit, maxDepth) }

func checkWithin(v any, left *int, depth int) error {
	size, digits := nodeSize, 0
	switch v := v.(type) {
	case string:
		size += len(v)
	case json.Number:
		digits = len(v)
	case *big.Int:
		digits = v.BitLen() / 3
	}
	if *left -= size; *left < 0 {
		return errors.New("a value is too large")
	}
	if digits > maxDigits {
		return fmt.Errorf("a number has more than %d digits", maxDigits)
	}
	if depth == 0 {
		return fmt.Errorf("a value is nested more than %d levels deep", maxDepth)
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if err := checkWithin(e, left, depth-1); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, e := range v {
			*left -= len(key)
			if err := checkWithin(e, left, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPath checks an array index, a key or a path.
func checkPath(v any) error {
	if path, ok := v.([]any); ok {
		for _, p := range path {
			if n, ok := gojq.ToFloat64(p); ok && n > maxIndex {
				return fmt.Errorf("an array index is greater than %d", maxIndex)
			}
		}
	}
	if n, ok := gojq.ToFloat64(v); ok && n > maxIndex {
		return fmt.Errorf("an array index is greater than %d", maxIndex)
	}
	return check(v, maxValue)
}

var paddedFormat = regexp.MustCompile(`%[^A-Za-z%]*[0-9]{3}`)

// checkFormat checks a date format. A padding can be much longer than the format.
func checkFormat(v any) error {
	if s, ok := v.(string); ok && paddedFormat.MatchString(s) {
		return errors.New("a date format has a padding of more than two digits")
	}
	return check(v, maxSmall)
}

var multiplication = func() *gojq.Code {
	q, err := gojq.Parse("$l * $r")
	if err != nil {
		panic(err)
	}
	code, err := gojq.Compile(q, gojq.WithVariables([]string{"$l", "$r"}))
	if err != nil {
		panic(err)
	}
	return code
}()

// product returns l * r, or an error. A string multiplied by a number is repeated.
func product(l, r any) any {
	for _, pair := range [][2]any{{l, r}, {r, l}} {
		s, isString := pair[0].(string)
		n, isNumber := gojq.ToFloat64(pair[1])
		if isString && isNumber && float64(len(s))*n > maxValue {
			return errors.New("a repeated string is too large")
		}
		if isString && isNumber && n > maxValue { // of an empty string
			return ""
		}
	}
	v, _ := multiplication.Run(nil, l, r).Next()
	return v
}
