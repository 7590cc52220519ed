package record

import (
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
)

// The header Traces contains the traces of a message's calls. Consecutive calls of the same request
// form a run. The runs are separated by commas:
//
//	calls[:traceparent[:tracestate]]
//
// The tracestate is escaped in the same way as an ID. Calls after the last run have no trace.

// roomForTraces is the maximum size of a part's traces.
const roomForTraces = 12 << 10

// AppendTrace appends a run with a number of calls to a header value.
func AppendTrace(dst []byte, calls int, c *event.Trace) []byte {
	return appendRun(dst, calls, c, true)
}

func appendRun(dst []byte, calls int, c *event.Trace, state bool) []byte {
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

// TracesOf returns the header value for the calls of a part. It returns "" if there are no traces.
// It omits the tracestates if they do not fit.
func TracesOf(l event.Traces) string {
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

func same(a, b *event.Trace) bool { return a == b || a != nil && b != nil && *a == *b }

// Traces parses the header value of a message with the given number of calls. It ignores invalid
// runs, because a trace must not block its call.
func Traces(value string, calls int) (l event.Traces) {
	for value != "" {
		var run string
		run, value, _ = strings.Cut(value, ",")
		count, rest, _ := strings.Cut(run, ":")
		n, err := strconv.Atoi(count)
		if err != nil || n < 1 || n > calls-len(l) {
			return l
		}
		parent, state, _ := strings.Cut(rest, ":")
		state, _ = unescape(state, '%')
		var c *event.Trace
		if parent, ok := event.ParseTraceParent(parent); ok {
			c = &event.Trace{Parent: parent, State: state}
		}
		for range n {
			l = append(l, c)
		}
	}
	return l
}
