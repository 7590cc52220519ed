package ingest

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A sorter validates the calls of a post. It adds valid calls to the batch of their source, and
// invalid calls to post.rejected.
type sorter struct {
	batches []event.Batch // the result

	post      *post
	sources   *SourceTable
	limits    tracking.Limits
	completer *completer
	draft     draft
	plans     Judge   // may be nil
	reports   reports // reports of plan violations

	key, source string // write key of the request and its source
	typ         string // type set by the endpoint; empty if calls contain their type
	known       bool   // key belongs to a source
	anyKnown    bool   // a call has its own write key, which is known
	unknown     string // last unknown write key of a call
}

// newSorter returns a sorter for a post. key is the write key of calls without their own.
func newSorter(p *post, sources *SourceTable, limits tracking.Limits, typ, key string) *sorter {
	s := &sorter{post: p, sources: sources, limits: limits, completer: newCompleter(p, limits, time.Now()), key: key, typ: typ}
	s.source, s.known = sources.SourceOf(key)
	return s
}

// heldBytes returns the memory used by the bodies of the batches.
func (s *sorter) heldBytes() int { return cap(s.completer.dst) }

// sort sorts all calls, or refuses the request.
func (s *sorter) sort() *requestError {
	for i := range s.post.calls {
		s.draft.read(s.post, i, s.limits, s.typ)
		s.place()
		if s.completer.full() {
			return refuse(http.StatusRequestEntityTooLarge, tracking.CodeBodyTooLarge,
				"with the context and the integrations of the batch in each call, the calls are larger than %d bytes", maxGrowth*s.limits.BodyBytes)
		}
	}
	if !s.known && !s.anyKnown {
		return unknownKey(cmp.Or(s.key, s.unknown))
	}
	return nil
}

// place adds the draft to the batch of its source, or to the rejected calls.
func (s *sorter) place() {
	d := &s.draft
	source := s.sourceOf(d)
	s.post.source = cmp.Or(s.post.source, source)
	var call tracking.Call
	if d.bad.Code == "" {
		call = s.completer.complete(d, source)
	}
	rules := s.sources.RulesOf(source)
	if d.bad.Code == "" && rules != nil {
		s.redact(d, rules, &call)
	}
	if d.bad.Code == "" && s.plans != nil {
		s.judge(d, &call)
	}
	if d.bad.Code != "" {
		s.reject(d, source)
		return
	}
	for i := range s.batches {
		if s.batches[i].Source == source {
			s.batches[i].Calls = append(s.batches[i].Calls, call)
			return
		}
	}
	var calls []tracking.Call
	if len(s.batches) == 0 { // most requests have one source
		calls = make([]tracking.Call, 0, len(s.post.calls)-d.index)
	}
	s.batches = append(s.batches, event.Batch{Source: source, ReceivedAt: call.ReceivedAt, Calls: append(calls, call)})
}

// redact redacts a complete call and its draft, so that redacted values are checked against the plan.
func (s *sorter) redact(d *draft, rules *redact.Rules, c *tracking.Call) {
	all := &s.completer.dst
	start := len(*all) - len(c.Body)
	*all = append((*all)[:start], rules.Apply(nil, c.Body)...)
	c.Body = (*all)[start:len(*all):len(*all)]
	for _, id := range []fields.Field{fields.UserID, fields.AnonymousID, fields.PreviousID, fields.GroupID} {
		if text := event.TextOf(c, id); *text != "" && rules.Hashes(fields.Names[id]) {
			*text = rules.Text(*text)
		}
	}
	if s.plans != nil {
		d.properties = fields.Object(fields.Find(c.Body, fields.Properties))
		d.traits = fields.Object(fields.Find(c.Body, fields.Traits))
	}
}

// judge checks an otherwise valid call against the plan of its source.
func (s *sorter) judge(d *draft, c *tracking.Call) {
	member := d.properties
	if fields.Describing(c.Type) == fields.Traits {
		member = d.traits
	}
	v := s.plans.Judge(c, member)
	if len(v.Violations) == 0 {
		return
	}
	c.Violations = v.Violations
	if v.ReportTo != "" {
		s.reports.add(v.ReportTo, c)
	}
	if !v.Reject {
		return
	}
	s.completer.dst = s.completer.dst[:len(s.completer.dst)-len(c.Body)]
	first := &v.Violations[0]
	message := fmt.Sprintf("the call violates the tracking plan %q: %s", first.Plan, first.Message)
	if more := len(v.Violations) - 1; more > 0 {
		message += fmt.Sprintf(" (and %d more)", more)
	}
	field, _, _ := strings.Cut(strings.TrimPrefix(first.Pointer, "/"), "/")
	d.reject(tracking.CodeNotAsPlanned, field, message)
	d.bad.Violations = v.Violations
}

// sourceOf returns the source of a call, by the write key of the call or the request.
func (s *sorter) sourceOf(d *draft) string {
	source, known := s.source, s.known
	if d.writeKey != "" && d.writeKey != s.key {
		if source, known = s.sources.SourceOf(d.writeKey); !known {
			s.unknown = d.writeKey
		}
		s.anyKnown = s.anyKnown || known
	}
	switch {
	case known:
	case d.writeKey == "" && s.key == "":
		d.reject(tracking.CodeUnknownWriteKey, "writeKey", "neither the call nor its request has a write key")
	default:
		d.reject(tracking.CodeUnknownWriteKey, "writeKey", "no source has the write key "+text.Redact(cmp.Or(d.writeKey, s.key)))
	}
	return source
}

// maxType is the maximum length of a Rejection's type in characters.
const maxType = 40

func (s *sorter) reject(d *draft, source string) {
	d.bad.Source, d.bad.ReceivedAt, d.bad.Body = source, s.completer.received, s.redacted(d, source)
	d.bad.Sender.Library = cmp.Or(fields.Library(d.context), fields.Library(s.post.context.raw))
	d.bad.Type = text.Cut(maxType, cmp.Or(s.typ, d.Type))
	s.post.rejected = append(s.post.rejected, d.bad)
}

// maxRejectedBody is the maximum length of a Rejection's body in bytes.
const maxRejectedBody = 32 << 10

// redacted returns the body of a rejected call, with its write key and the values of its source's rules
// redacted. It returns notShown if its source has rules but the call is not an object, or if its source is
// unknown and any source has rules.
func (s *sorter) redacted(d *draft, source string) []byte {
	p, rules := s.post, s.sources.RulesOf(source)
	if source == "" && s.sources.redacts() || rules != nil && d.raw[0] != '{' {
		return []byte(notShown)
	}
	from, end := p.calls[d.index].start, p.calls[d.index].end
	var kept []byte
	for _, m := range d.members {
		if m.field != fields.WriteKey {
			continue
		}
		if key := fields.Text(p.body[m.value:m.end]); key != "" {
			kept = fields.AppendString(append(kept, p.body[from:m.value]...), text.Redact(key))
			from = int(m.end)
		}
	}
	kept = rules.Apply(nil, append(kept, p.body[from:end]...))
	return bytes.Clone(kept[:min(len(kept), maxRejectedBody)])
}
