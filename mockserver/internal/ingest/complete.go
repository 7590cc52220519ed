package ingest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// maxAddedBytes is the maximum size of the fields that the collector adds to a call:
	// times, type and messageId.
	maxAddedBytes = 256
	// maxGrowth limits the total size of a request's stored calls, as a multiple of the body
	// limit. Calls grow when the context and the integrations of the batch are copied to them.
	maxGrowth = 10
)

// A completer turns drafts into the stored form of calls.
type completer struct {
	post     *post
	limits   tracking.Limits
	received time.Time
	dst      []byte // contains the bodies of all calls

	receivedText, sentText []byte // encoded times of the post
}

// newCompleter allocates one buffer for all bodies of a post.
func newCompleter(p *post, limits tracking.Limits, received time.Time) *completer {
	c := &completer{post: p, limits: limits, received: received.UTC().Truncate(time.Millisecond)}
	grown := len(p.calls) * (160 + len(p.context.raw) + len(p.integrations.raw))
	c.dst = make([]byte, 0, len(p.body)+min(grown, len(p.body)+4096))
	c.receivedText = fields.AppendTimeMember(nil, `"receivedAt":"`, c.received)
	c.sentText = fields.AppendTimeMember(nil, `,"sentAt":"`, p.sentAt)
	return c
}

// complete returns the stored form of a valid draft. It rejects the draft if the context
// and integrations of the batch make it too large.
func (c *completer) complete(d *draft, source string) tracking.Call {
	overlaid := len(c.post.context.raw) + len(c.post.integrations.raw)
	if overlaid > c.limits.CallBytes {
		return c.tooLarge(d, overlaid)
	}
	call := d.Call
	call.Source, call.ReceivedAt = source, c.received
	if call.SentAt.IsZero() {
		call.SentAt = c.post.sentAt
	}
	call.Timestamp = correctClock(call.ReceivedAt, call.SentAt, call.OriginalTimestamp)
	for _, t := range []*time.Time{&call.SentAt, &call.OriginalTimestamp, &call.Timestamp} {
		*t = t.Truncate(time.Millisecond) // the encoded times have this precision
	}
	if call.ID == "" {
		call.ID = event.GeneratedIDPrefix + strings.ToLower(rand.Text())
	}
	start := len(c.dst)
	c.members(d)
	c.overlays(d)
	if d.typeFromEndpoint {
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
	return call
}

func (c *completer) tooLarge(d *draft, size int) tracking.Call {
	d.reject(tracking.CodeCallTooLarge, "", fmt.Sprintf("with the context and the integrations of its batch, the call has %d bytes; at most %d are allowed", size, c.limits.CallBytes))
	return tracking.Call{}
}

// full reports whether the calls exceed the limit for a request.
func (c *completer) full() bool { return len(c.dst) > maxGrowth*c.limits.BodyBytes }

// members appends the fields of the call, except fields that the collector replaces. It copies
// adjacent fields together.
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

// replaces reports whether the collector writes or removes a field.
func (c *completer) replaces(d *draft, f fields.Field) bool {
	switch f {
	case fields.Timestamp, fields.OriginalTimestamp, fields.SentAt, fields.ReceivedAt, fields.WriteKey:
		return true
	case fields.Type:
		return d.typeFromEndpoint
	case fields.MessageID:
		return d.ID == ""
	case fields.Context:
		return c.post.context.raw != nil
	case fields.Integrations:
		return c.post.integrations.raw != nil
	}
	return false
}

// overlays appends the context and the integrations if the batch has any.
func (c *completer) overlays(d *draft) {
	if c.post.context.raw != nil {
		c.dst = append(c.post.context.merge(append(c.dst, `"context":`...), d.context), ',')
	}
	if c.post.integrations.raw != nil {
		c.dst = append(c.post.integrations.merge(append(c.dst, `"integrations":`...), d.integrations), ',')
	}
}

// times appends the times and the closing brace of the call.
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

// correctClock returns the time of a call by the collector's clock. It assumes that the error of
// the sender's clock did not change between the call and the request. If sent or original is
// missing, it makes no correction.
func correctClock(received, sent, original time.Time) time.Time {
	switch {
	case original.IsZero():
		return received
	case sent.IsZero():
		return original
	}
	// Use seconds, because a time.Duration overflows after 292 years.
	seconds := received.Unix() - sent.Unix() + original.Unix()
	nanos := received.Nanosecond() - sent.Nanosecond() + original.Nanosecond()
	corrected := time.Unix(seconds, int64(nanos)).UTC()
	if corrected.Year() < 0 || corrected.Year() > 9999 {
		return received
	}
	return corrected
}

// An overlay is an object of a batch that is merged into each call. Fields of the call take
// precedence.
type overlay struct {
	raw   []byte         // the object, or nil
	index map[string]int // index in texts by key; nil until needed
	texts [][]byte       // fields, each consisting of key and value
	has   []bool         // whether the current call has the field itself
	keys  [][]byte       // quoted keys without escapes
}

// merge appends a call's own object together with the missing fields of the overlay. own may be
// nil.
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
	dst[len(dst)-1] = '}' // replaces the last comma
	return dst
}

// disjoint is a fast check that own and the overlay are not empty and share no keys. It may
// return false even if they share no keys.
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

// split parses the fields. If a key occurs twice, the last field is used.
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
		o.keys = append(o.keys, []byte(`"`+name+`"`))
	}
	o.has = make([]bool, len(o.texts))
}
