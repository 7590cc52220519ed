package jq

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// guardProgram makes a program charge its budget for the work of each operator and function. It
// returns an error for functions and patterns that are not available.
func guardProgram(q *gojq.Query) error { return visit(reflect.ValueOf(q)) }

// visit guards all parts of a program, inner parts first.
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
			guardQuery(part)
		case *gojq.Term:
			return guardTerm(part)
		case *gojq.FuncDef:
			if isSpecial(part.Name) {
				return fmt.Errorf("the function %.50s cannot be redefined", part.Name)
			}
		case *gojq.String:
			for i, q := range part.Queries {
				if q.Term == nil || q.Term.Str == nil { // not a literal
					part.Queries[i] = &gojq.Query{Term: parentheses(charged(q))}
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

// The names of the guards. Programs cannot contain such names.
const (
	chargeFunc  = "%charge"  // charges for its input
	heavyFunc   = "%heavy"   // charges for a heavy function of its input
	indexFunc   = "%index"   // charges for the array that an index or a path can create
	numberFunc  = "%number"  // charges for the digits of a string
	patternFunc = "%pattern" // charges for a pattern, with flags
	operand     = "$%operand"
)

func call(name string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}}
}

func pipe(l, r *gojq.Query) *gojq.Query { return &gojq.Query{Left: l, Op: gojq.OpPipe, Right: r} }

func charged(q *gojq.Query) *gojq.Query { return pipe(q, call(chargeFunc)) }

func parentheses(q *gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeQuery, Query: q}
}

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

// updates contains the operators of l += r and similar assignments.
var updates = map[gojq.Operator]gojq.Operator{
	gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul, gojq.OpUpdateDiv: gojq.OpDiv, gojq.OpUpdateMod: gojq.OpMod,
}

// guardQuery guards an operator.
func guardQuery(q *gojq.Query) {
	l, r := q.Left, q.Right
	switch q.Op {
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul, gojq.OpDiv, gojq.OpMod, gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		replace(q, operation(q.Op, l, r))
	case gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAlt: // copies parts of its input
		replace(q, pipe(call(chargeFunc), &gojq.Query{Left: l, Op: q.Op, Right: r}))
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod: // r as $operand | l |= . + $operand
		update := &gojq.Query{Left: l, Op: gojq.OpModify, Right: operation(updates[q.Op], identity(), call(operand))}
		replace(q, pipe(r, pipe(call(chargeFunc), update)))
		q.Patterns = []*gojq.Pattern{{Name: operand}}
	}
}

// replace replaces the expression of a query. Its function definitions remain.
func replace(q, with *gojq.Query) {
	q.Term, q.Left, q.Op, q.Right = with.Term, with.Left, with.Op, with.Right
}

// operation returns a guarded l op r.
func operation(op gojq.Operator, l, r *gojq.Query) *gojq.Query {
	if pairs[op.String()] != nil {
		return call("%"+op.String(), l, r)
	}
	if op == gojq.OpDiv { // may split a string
		return &gojq.Query{Left: pipe(l, call(heavyFunc)), Op: op, Right: charged(r)}
	}
	return &gojq.Query{Left: charged(l), Op: op, Right: charged(r)}
}

// guardTerm guards a call of a function or format, an index, and each suffix whose time depends on the
// size of its value.
func guardTerm(t *gojq.Term) error {
	suffixes := t.SuffixList
	t.SuffixList = nil
	switch t.Type {
	case gojq.TermTypeFunc:
		if err := guardFunc(t); err != nil {
			return err
		}
	case gojq.TermTypeFormat, gojq.TermTypeRecurse:
		enclose(t, chargeFunc)
	case gojq.TermTypeIndex:
		if guardIndex(t.Index) {
			enclose(t, chargeFunc)
		}
	}
	for _, s := range suffixes {
		if s.Iter || guardIndex(s.Index) {
			value := *t
			*t = *parentheses(charged(&gojq.Query{Term: &value}))
		}
		t.SuffixList = append(t.SuffixList, s)
	}
	return nil
}

// enclose replaces a term by (guard | term).
func enclose(t *gojq.Term, guard string) {
	inner := *t
	*t = *parentheses(pipe(call(guard), &gojq.Query{Term: &inner}))
}

// guardIndex guards an index or a slice. It returns false for the name of a field.
func guardIndex(x *gojq.Index) bool {
	if x == nil || x.Start == nil && x.End == nil {
		return false
	}
	if x.Start != nil {
		x.Start = pipe(x.Start, call(indexFunc))
	}
	return true
}

var (
	// denied contains functions that can take long, or create a large value, for a small value.
	denied = []string{"builtins", "fromstream", "jn", "modulemeta", "transpose", "yn"}
	// free contains functions that take the same time for a large value.
	free = []string{"empty", "not", "select", "type"}
	// heavy contains functions that sort their input, or create a value for each of its characters.
	heavy = []string{"explode", "group_by", "sort", "sort_by", "split", "unique", "unique_by"}
	// indexing contains functions whose first argument can be an array index or a path.
	indexing = []string{"getpath", "nth", "setpath"}
	// dates contains functions whose argument is a date format.
	dates = []string{"strflocaltime", "strftime", "strptime"}
)

// guardFunc guards the call of a function.
func guardFunc(t *gojq.Term) error {
	f := t.Func
	if strings.HasPrefix(f.Name, "$") {
		return nil
	}
	if strings.HasPrefix(f.Name, "_") || slices.Contains(denied, f.Name) {
		return fmt.Errorf("the function %.50s is not available", f.Name)
	}
	if pairs[f.Name] != nil && len(f.Args) == 1 {
		*t = *call("%"+f.Name, identity(), f.Args[0]).Term
		return nil
	}
	if _, ok := patterns[f.Name]; ok && len(f.Args) > 0 && (f.Name != "split" || len(f.Args) == 2) {
		return guardPattern(t)
	}
	if slices.Contains(dates, f.Name) && len(f.Args) == 1 {
		if format, ok := literal(f.Args[0]); !ok || threeDigits.MatchString(format) {
			return fmt.Errorf("the format of %s must be a literal string, without a padding of more than two digits", f.Name)
		}
	}
	for i, arg := range f.Args {
		if f.Args[i] = charged(arg); i == 0 && slices.Contains(indexing, f.Name) {
			f.Args[i] = pipe(arg, call(indexFunc))
		}
	}
	switch {
	case slices.Contains(heavy, f.Name):
		enclose(t, heavyFunc)
	case f.Name == "tonumber":
		enclose(t, numberFunc)
	case !slices.Contains(free, f.Name):
		enclose(t, chargeFunc)
	}
	return nil
}

// isSpecial reports whether the guard of a function depends on its name.
func isSpecial(name string) bool {
	_, isPattern := patterns[name]
	return isPattern || pairs[name] != nil || slices.Contains(slices.Concat(denied, heavy, indexing, dates), name)
}

// patterns contains the functions whose first argument is a regular expression.
var patterns = map[string]struct {
	flags  int    // index of the argument with flags
	always string // additional flags
}{
	"test": {1, ""}, "match": {1, ""}, "capture": {1, ""}, "scan": {1, "g"}, "split": {1, "g"}, "splits": {1, "g"}, "sub": {2, ""}, "gsub": {2, "g"},
}

// guardPattern guards a function with a regular expression. The pattern and the flags must be constant,
// because the interpreter caches each pattern forever.
func guardPattern(t *gojq.Term) error {
	f, p := t.Func, patterns[t.Func.Name]
	pattern, ok := literal(f.Args[0])
	flags := ""
	if ok && len(f.Args) > p.flags && f.Args[p.flags].String() != "null" {
		flags, ok = literal(f.Args[p.flags])
	}
	if !ok {
		return fmt.Errorf("the pattern and the flags of %s must be literal strings, such as %[1]s(\"[a-z]\")", f.Name)
	}
	if _, err := newPattern(pattern, flags); err != nil {
		return err
	}
	if f.Name == "sub" || f.Name == "gsub" {
		f.Args[1] = charged(f.Args[1])
	}
	inner := *t
	guard := call(patternFunc, constant(pattern), constant(flags+p.always))
	*t = *parentheses(pipe(pipe(call(chargeFunc), guard), &gojq.Query{Term: &inner}))
	return nil
}

func constant(s string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: s}}}
}

// literal returns the value of a query that is a string.
func literal(q *gojq.Query) (string, bool) {
	if q.Term == nil || q.Term.Type != gojq.TermTypeString || q.Term.Str.Queries != nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return "", false
	}
	return q.Term.Str.Str, true
}

var threeDigits = regexp.MustCompile(`[0-9]{3}`)
