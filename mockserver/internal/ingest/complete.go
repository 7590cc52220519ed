package ingest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// maxAddedBytes is how much the collector itself adds to a call at most: its
	// times, a type and a messageId.
	maxAddedBytes = 256
	// maxGrowth is how many times as large as a body may be its calls may become, when
	// its context and its integrations are put into each of them.
	maxGrowth = 10
)

// A completer turns the drafts of one post into the calls that are stored.
type completer struct {
	post     *post
	limits   tracking.Limits
	received time.Time
	dst      []byte // the bodies, one after another

	receivedText, sentText []byte // the times of the post as members of its calls
}

// newCompleter makes room for the bodies of a post in one piece.
func newCompleter(p *post, limits tracking.Limits, received time.Time) *completer {
	c := &completer{post: p, limits: limits, received: received.UTC().Truncate(time.Millisecond)}
	grown := len(p.calls) * (160 + len(p.context.raw) + len(p.integrations.raw))
	c.dst = make([]byte, 0, len(p.body)+min(grown, len(p.body)+4096))
	c.receivedText = fields.AppendTimeMember(nil, `"receivedAt":"`, c.received)
	c.sentText = fields.AppendTimeMember(nil, `,"sentAt":"`, p.sentAt)
	return c
}

// complete makes the call that is stored of a draft in which nothing is wrong.
// It rejects one that what it gets from its batch makes too large.
func (c *completer) complete(d *draft, source string) (call tracking.Call, ok bool) {
	overlaid := len(c.post.context.raw) + len(c.post.integrations.raw)
	if overlaid > c.limits.CallBytes {
		return c.tooLarge(d, overlaid)
	}
	call = d.Call
	call.Source, call.ReceivedAt = source, c.received
	if call.SentAt.IsZero() {
		call.SentAt = c.post.sentAt
	}
	call.Timestamp = correctClock(call.ReceivedAt, call.SentAt, call.OriginalTimestamp)
	for _, t := range []*time.Time{&call.SentAt, &call.OriginalTimestamp, &call.Timestamp} {
		*t = t.Truncate(time.Millisecond) // as they are written
	}
	if call.ID == "" {
		call.ID = "collector-" + strings.ToLower(rand.Text())
	}
	start := len(c.dst)
	c.members(d)
	c.overlays(d)
	if d.typeIsOurs {
		c.dst = append(fields.AppendString(append(c.dst, `"type":`...), call.Type), ',')
	}
	if d.ID == "" {
		c.dst = append(fields.AppendString(append(c.dst, `"messageId":`...), call.ID), ',')
	}
	c.times(d, &call)
	if size := len(c.dst) - start; overlaid > 0 && size > c.limits.CallBytes+maxAddedBytes {
		c.dst = c.dst[:start]
		return c.tooLarge(d, size)
	}
	call.Body = c.dst[start:len(c.dst):len(c.dst)]
	return call, true
}

func (c *completer) tooLarge(d *draft, size int) (tracking.Call, bool) {
	d.reject(tracking.CodeCallTooLarge, "", fmt.Sprintf("with the context and the integrations of its batch the call has %d bytes; at most %d are allowed", size, c.limits.CallBytes))
	return tracking.Call{}, false
}

// full reports whether the calls have become more than a request may bring.
func (c *completer) full() bool { return len(c.dst) > maxGrowth*c.limits.BodyBytes }

// members writes the call's own members as they came, but for those that the
// collector answers for. Those that stand side by side are copied in one piece.
func (c *completer) members(d *draft) {
	c.dst = append(c.dst, '{')
	body := c.post.body
	from, to := int32(-1), int32(0)
	flush := func() {
		if from >= 0 {
			c.dst = append(append(c.dst, body[from:to]...), ',')
			from = -1
		}
	}
	for _, m := range d.members {
		if c.replaces(d, m.field) {
			flush()
			continue
		}
		if from < 0 {
			from = m.key
		}
		to = m.end
	}
	flush()
}

// replaces reports whether a member of the call is left out because the
// collector writes it, or keeps it to itself.
func (c *completer) replaces(d *draft, f fields.Field) bool {
	switch f {
	case fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt, fields.WriteKey:
		return true
	case fields.Type:
		return d.typeIsOurs
	case fields.MessageID:
		return d.ID == ""
	case fields.Context:
		return c.post.context.raw != nil
	case fields.Integrations:
		return c.post.integrations.raw != nil
	}
	return false
}

// overlays writes the context and the integrations where the batch has some.
func (c *completer) overlays(d *draft) {
	if c.post.context.raw != nil {
		c.dst = append(c.post.context.merge(append(c.dst, `"context":`...), d.context), ',')
	}
	if c.post.integrations.raw != nil {
		c.dst = append(c.post.integrations.merge(append(c.dst, `"integrations":`...), d.integrations), ',')
	}
}

// times writes the members that tell the times, and the end of the call.
func (c *completer) times(d *draft, call *tracking.Call) {
	c.dst = append(c.dst, c.receivedText...)
	if d.SentAt.IsZero() {
		c.dst = append(c.dst, c.sentText...)
	} else {
		c.dst = fields.AppendTimeMember(c.dst, `,"sentAt":"`, call.SentAt)
	}
	c.dst = fields.AppendTimeMember(c.dst, `,"originalTimestamp":"`, call.OriginalTimestamp)
	c.dst = append(fields.AppendTimeMember(c.dst, `,"timestamp":"`, call.Timestamp), '}')
}

// correctClock returns when a call happened by the collector's clock: what the
// sender's clock was off when it sent, it was off when the call happened. A
// sender that does not tell both times is believed.
func correctClock(received, sent, original time.Time) time.Time {
	switch {
	case original.IsZero():
		return received
	case sent.IsZero():
		return original
	}
	// Not by durations, which hold only 292 years.
	seconds := received.Unix() - sent.Unix() + original.Unix()
	nanos := received.Nanosecond() - sent.Nanosecond() + original.Nanosecond()
	corrected := time.Unix(seconds, int64(nanos)).UTC()
	if corrected.Year() < 0 || corrected.Year() > 9999 {
		return received
	}
	return corrected
}

// An overlay is an object of a batch that lies beneath that of each call: of
// members with the same key the call's own is taken.
type overlay struct {
	raw   []byte         // the object, or nil
	index map[string]int // of each key its place in texts; nil until it is needed
	texts [][]byte       // the members, key and value
	has   []bool         // which of them the call at hand has itself
	keys  [][]byte       // their keys in quotes, without escapes
}

// merge writes a call's own object, which may be nil, with the members of the
// overlay that it lacks.
func (o *overlay) merge(dst, own []byte) []byte {
	if own == nil {
		return append(dst, o.raw...)
	}
	if o.index == nil {
		o.split()
	}
	if o.disjoint(own) {
		dst = append(append(dst, o.raw[:len(o.raw)-1]...), ',')
		return append(dst, own[1:]...)
	}
	start := len(dst)
	dst = append(dst, '{')
	clear(o.has)
	for m := range jsonscan.Members(own) {
		if i, ok := o.index[string(jsonscan.Unquote(m.Key))]; ok {
			o.has[i] = true
		}
		dst = append(append(dst, m.Text...), ',')
	}
	for i, text := range o.texts {
		if !o.has[i] {
			dst = append(append(dst, text...), ',')
		}
	}
	if len(dst) == start+1 {
		return append(dst, '}')
	}
	dst[len(dst)-1] = '}' // in place of the last comma
	return dst
}

// disjoint reports at a glance that a call's own object has none of the overlay's
// keys, and that neither is empty. It may say no though it is so.
func (o *overlay) disjoint(own []byte) bool {
	if len(o.keys) == 0 || len(o.keys) > 8 || bytes.IndexByte(own, '\\') >= 0 || bytes.IndexByte(own, '"') < 0 {
		return false
	}
	for _, key := range o.keys {
		if bytes.Contains(own, key) {
			return false
		}
	}
	return true
}

// split reads the members. Of duplicate keys the last counts.
func (o *overlay) split() {
	o.index = map[string]int{}
	for m := range jsonscan.Members(o.raw) {
		name := string(jsonscan.Unquote(m.Key))
		if i, ok := o.index[name]; ok {
			o.texts[i] = m.Text
			continue
		}
		o.index[name] = len(o.texts)
		o.texts = append(o.texts, m.Text)
		o.keys = append(o.keys, fields.AppendString(nil, name))
	}
	o.has = make([]bool, len(o.texts))
}
