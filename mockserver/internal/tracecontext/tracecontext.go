package tracecontext

import (
	"net/http"
	"strconv"
	"strings"
)

// Headers of a trace context, in canonical form.
const (
	ParentHeader = "Traceparent"
	StateHeader  = "Tracestate"
)

// A Context is the trace that a request is part of. It does not change once it is made.
type Context struct {
	Parent string // the traceparent in version 00: always 55 characters
	State  string // the tracestate, of at most 512 characters; empty where there is none
}

const (
	parentLength = 55  // of version 00: 00-<32 digits>-<16 digits>-<2 digits>
	maxState     = 512 // what everybody passes on at least
	longMember   = 128 // members of the state that are longer are left out first
	maxMembers   = 32
	maxKey       = 256
	maxValue     = 256
	maxHeader    = 8 << 10 // of a state that is read at all
)

// Of returns the context that a request's headers have, or nil if they have none that is
// valid. A state that is not valid is left out.
func Of(h http.Header) *Context {
	parents := h[ParentHeader]
	if len(parents) != 1 {
		return nil // none, or nobody knows which
	}
	parent, ok := ParseParent(parents[0])
	if !ok {
		return nil
	}
	return &Context{Parent: parent, State: parseState(h[StateHeader])}
}

// ParseParent returns a traceparent in version 00. Of later versions it is what version 00
// has too. It is not ok if the text is no traceparent.
func ParseParent(text string) (parent string, ok bool) {
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
	set, _ := strconv.ParseUint(flags, 16, 8) // isHex
	if version == "00" && set&^known == 0 {
		return text, true // by far the commonest costs no memory
	}
	return "00-" + trace + "-" + span + "-0" + strconv.FormatUint(set&known, 16), true
}

// Flags of a traceparent. Others have no meaning yet, and are not passed on.
const (
	flagSampled = 1
	flagRandom  = 2 // the trace's id is random
)

// TraceID returns the id of the trace, in 32 hexadecimal digits.
func (c *Context) TraceID() string { return c.Parent[3:35] }

// SpanID returns the id of the span that is the parent, in 16 hexadecimal digits.
func (c *Context) SpanID() string { return c.Parent[36:52] }

// Sampled reports whether the sender records the trace.
func (c *Context) Sampled() bool { return (c.Parent[54]-'0')&flagSampled != 0 }

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isZero(s string) bool { return strings.Trim(s, "0") == "" }

// parseState returns the members of a state, without those for which there is no room. It
// is empty if one of them is not valid.
func parseState(values []string) string {
	length := 0
	for _, v := range values {
		length += len(v) + 1
	}
	if length == 0 || length > maxHeader {
		return ""
	}
	var members []string
	keys := map[string]bool{}
	for member := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, _ := strings.Cut(member, "=")
		if !isKey(key) || !isValue(value) || keys[key] || len(members) == maxMembers {
			return ""
		}
		keys[key] = true
		members = append(members, member)
	}
	return strings.Join(fit(members), ",")
}

// fit leaves out members until the rest has room: first long ones, then those at the end,
// which were written longest ago.
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

func isKey(s string) bool {
	for i := range len(s) {
		switch b := s[i]; {
		case b >= 'a' && b <= 'z' || b >= '0' && b <= '9':
		case i > 0 && strings.IndexByte("_-*/@", b) >= 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= maxKey
}

func isValue(s string) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '=' {
			return false
		}
	}
	return s != "" && len(s) <= maxValue
}

// A List has the context of each of several calls, nil for one without. It may be shorter
// than there are calls: the others have none.
type List []*Context

// Repeat returns the list of n calls of one request.
func Repeat(c *Context, n int) List {
	if c == nil {
		return nil
	}
	l := make(List, n)
	for i := range l {
		l[i] = c
	}
	return l
}

// At returns the context of a call, or nil.
func (l List) At(i int) *Context {
	if i < len(l) {
		return l[i]
	}
	return nil
}

// Between returns the list of the calls from one up to another.
func (l List) Between(from, to int) List {
	if from >= len(l) {
		return nil
	}
	return l[from:min(to, len(l))]
}

// With returns the list with the context of call i, which comes after those that it has.
func (l List) With(i int, c *Context) List {
	if c == nil {
		return l
	}
	for len(l) < i {
		l = append(l, nil)
	}
	return append(l, c)
}

// contextBytes is about what a context takes beside its texts.
const contextBytes = 32

// Size is about how many bytes of memory the list takes, where calls of one request come
// one after another.
func (l List) Size() (n int64) {
	var last *Context
	for _, c := range l {
		if c != nil && c != last {
			n += int64(len(c.Parent) + len(c.State) + contextBytes)
		}
		last = c
		n += 8
	}
	return n
}
