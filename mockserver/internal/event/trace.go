package event

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Names of the headers, in canonical format.
const (
	TraceParentHeader = "Traceparent"
	TraceStateHeader  = "Tracestate"
)

// A Trace is the trace context of a request. It is immutable.
type Trace struct {
	Parent string // traceparent in version 00: always 55 characters
	State  string // tracestate, at most 512 characters; may be empty
}

const (
	parentLength   = 55  // length of version 00: 00-<32 digits>-<16 digits>-<2 digits>
	maxState       = 512 // minimum length that the recommendation requires to propagate
	longMember     = 128 // longer entries of a state are dropped first
	maxMembers     = 32
	maxMemberKey   = 256
	maxMemberValue = 256
	maxRawState    = 8 << 10 // maximum length of a state; a longer state is ignored
)

// TraceOf returns the context in the headers of a request. It returns nil if traceparent is missing or
// invalid. It omits an invalid tracestate.
func TraceOf(h http.Header) *Trace {
	parents := h[TraceParentHeader]
	if len(parents) != 1 {
		return nil // the header is missing or ambiguous
	}
	parent, ok := ParseTraceParent(parents[0])
	if !ok {
		return nil
	}
	return &Trace{Parent: parent, State: parseState(h[TraceStateHeader])}
}

// ParseTraceParent converts a traceparent to version 00. ok is false if it is invalid.
func ParseTraceParent(text string) (parent string, ok bool) {
	text = strings.Trim(text, " \t")
	if len(text) < parentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return "", false
	}
	version, trace, span, flags := text[:2], text[3:35], text[36:52], text[53:55]
	if !isHex(version) || !isHex(trace) || !isHex(span) || !isHex(flags) || version == "ff" || isZero(trace) || isZero(span) {
		return "", false
	}
	known := uint64(flagSampled | flagRandom)
	if version != "00" {
		known = flagSampled
	}
	switch {
	case len(text) == parentLength:
	case version == "00" || text[parentLength] != '-':
		return "", false
	}
	set, _ := strconv.ParseUint(flags, 16, 8) // isHex has checked the flags
	if version == "00" && set&^known == 0 {
		return text, true // the most common case, without an allocation
	}
	return "00-" + trace + "-" + span + "-0" + strconv.FormatUint(set&known, 16), true
}

// Flags of a traceparent. Unknown flags are not propagated.
const (
	flagSampled = 1
	flagRandom  = 2 // the trace ID is random
)

// TraceID returns the trace ID in hexadecimal.
func (c *Trace) TraceID() string { return c.Parent[3:35] }

// SpanID returns the ID of the parent span in hexadecimal.
func (c *Trace) SpanID() string { return c.Parent[36:52] }

// Sampled reports whether the sender records the trace.
func (c *Trace) Sampled() bool { return (c.Parent[54]-'0')&flagSampled != 0 }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isZero(s string) bool { return strings.Trim(s, "0") == "" }

// parseState returns the entries of a state, shortened to maxState. If an entry is invalid, it returns
// "".
func parseState(values []string) string {
	length := 0
	for _, v := range values {
		length += len(v) + 1
	}
	if length == 0 || length > maxRawState {
		return ""
	}
	var members []string
	keys := map[string]bool{}
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, _ := strings.Cut(member, "=")
		if !isMemberKey(key) || !isMemberValue(value) || keys[key] || len(members) == maxMembers {
			return ""
		}
		keys[key] = true
		members = append(members, member)
	}
	return strings.Join(fit(members), ",")
}

// fit drops entries until the state is short enough. It drops long entries first, and then the last
// entries, which are the oldest.
func fit(members []string) []string {
	length := max(len(members)-1, 0)
	for _, m := range members {
		length += len(m)
	}
	for i := len(members) - 1; i >= 0 && length > maxState; i-- {
		if n := len(members[i]); n > longMember {
			length -= n + 1
			members = append(members[:i], members[i+1:]...)
		}
	}
	for length > maxState {
		last := len(members) - 1
		length -= len(members[last]) + 1
		members = members[:last]
	}
	return members
}

func isMemberKey(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z' || b >= '0' && b <= '9':
		case i > 0 && strings.IndexByte("_-*/@", b) >= 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxMemberKey
}

func isMemberValue(s string) bool {
	invalid := func(r rune) bool { return r < ' ' || r > '~' || r == '=' }
	return s != "" && len(s) <= maxMemberValue && !strings.ContainsFunc(s, invalid)
}

// Traces contains the contexts of several calls. The context of a call without one is nil. A list may
// be shorter than the list of calls; the missing contexts are nil.
type Traces []*Trace

// RepeatTrace returns a list that contains c n times.
func RepeatTrace(c *Trace, n int) Traces {
	if c == nil {
		return nil
	}
	return slices.Repeat(Traces{c}, n)
}

// At returns the context of call i, or nil.
func (t Traces) At(i int) *Trace {
	if i < len(t) {
		return t[i]
	}
	return nil
}

// Between returns the contexts of the calls from index from up to, but not including, index to.
func (t Traces) Between(from, to int) Traces {
	if from >= len(t) {
		return nil
	}
	return t[from:min(to, len(t))]
}

// With returns the list with the context of call i added. Index i must be greater than the index
// of every previous call.
func (t Traces) With(i int, c *Trace) Traces {
	if c == nil {
		return t
	}
	for len(t) < i {
		t = append(t, nil)
	}
	return append(t, c)
}

// traceBytes is the approximate memory of a Trace without its strings.
const traceBytes = 32

// Size returns the approximate memory of the list in bytes. Adjacent calls of one request share a
// context, which is counted once.
func (t Traces) Size() (n int64) {
	var last *Trace
	for _, c := range t {
		if c != nil && c != last {
			n += int64(len(c.Parent) + len(c.State) + traceBytes)
		}
		last = c
		n += 8
	}
	return n
}
