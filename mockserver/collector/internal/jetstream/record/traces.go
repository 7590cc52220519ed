package record

import (
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
)

// What the header Traces has: the calls of a message in their order, as many of them
// together as one request brought, with the trace of that request. Commas divide these runs:
//
//	calls[:traceparent[:tracestate]]
//
// The tracestate is escaped as an id is. Calls behind the last run have no trace.

// roomForTraces is how many bytes the traces of one part may take in a header.
const roomForTraces = 12 << 10

// AppendTrace appends a run of calls to a header's value.
func AppendTrace(dst []byte, calls int, c *tracecontext.Context) []byte {
	return appendRun(dst, calls, c, true)
}

func appendRun(dst []byte, calls int, c *tracecontext.Context, state bool) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = strconv.AppendInt(dst, int64(calls), 10)
	if c == nil {
		return dst
	}
	dst = append(append(dst, ':'), c.Parent...)
	if c.State != "" && state {
		dst = appendID(append(dst, ':'), c.State)
	}
	return dst
}

// TracesOf returns the header's value for the calls of a part, which is empty where no call
// has a trace. Where there is no room it leaves out what tracestate says.
func TracesOf(l tracecontext.List) string {
	for _, states := range []bool{true, false} {
		var value []byte
		for i := 0; i < len(l); {
			n := i + 1
			for n < len(l) && same(l[n], l[i]) {
				n++
			}
			value = appendRun(value, n-i, l[i], states)
			i = n
		}
		if len(value) <= roomForTraces || !states {
			return string(value)
		}
	}
	return ""
}

func same(a, b *tracecontext.Context) bool { return a == b || a != nil && b != nil && *a == *b }

// Traces reads a header's value for so many calls. What cannot be read is no trace: a call
// is not held up for it.
func Traces(value string, calls int) (l tracecontext.List) {
	for value != "" {
		var run string
		run, value, _ = strings.Cut(value, ",")
		count, rest, _ := strings.Cut(run, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > calls-len(l) {
			return l
		}
		parent, state, _ := strings.Cut(rest, ":")
		var c *tracecontext.Context
		if parent, ok := tracecontext.ParseParent(parent); ok {
			c = &tracecontext.Context{Parent: parent, State: unescapeID(state)}
		}
		for range n {
			l = append(l, c)
		}
	}
	return l
}
