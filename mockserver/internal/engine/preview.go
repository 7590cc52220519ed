package engine

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/routing"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// previewCalls is the maximum number of calls in a preview.
	previewCalls = 200
	// previewExamples is the maximum number of examples in a preview.
	previewExamples = 3
	// previewTime limits the duration of a preview, which then covers fewer calls.
	previewTime = time.Second
)

// A Preview counts the newest calls that a destination would get.
type Preview struct {
	Calls   int           `json:"calls"` // number of checked calls
	Sent    int           `json:"sent"`  // number of calls that the destination would get
	Reasons []ReasonCount `json:"reasons"`
	// Examples contains the newest calls that pass the filters, if the destination changes bodies.
	Examples []Example `json:"examples,omitempty"`
}

// A ReasonCount is the number of calls that are excluded for a reason.
type ReasonCount struct {
	Reason string `json:"reason"`
	Failed bool   `json:"failed,omitempty"` // whether the calls would fail, instead of being filtered
	Calls  int    `json:"calls"`
}

// An Example is a call with the body of its request.
type Example struct {
	Call      *tracking.Call  `json:"-"`
	MessageID string          `json:"messageId"`
	Input     json.RawMessage `json:"input,omitempty"`  // the body without the redaction and the transform
	Body      json.RawMessage `json:"body,omitempty"`   // absent if the call would not be sent
	Reason    string          `json:"reason,omitempty"` // why the call would not be sent
	Failed    bool            `json:"failed,omitempty"` // whether the call would fail, instead of being filtered
}

// Preview applies the settings of a destination to up to 200 of the newest retained calls. A disabled
// destination is treated as enabled. Reasons are sorted by number of calls, descending.
func (c *Collector) Preview(d tracking.Destination) Preview {
	d.Disabled = false
	p := Preview{Reasons: []ReasonCount{}}
	rules, transform := d.Redact.Rules(c.config.RedactKey), c.Transform(&d)
	records, _ := c.config.History.Page(0, previewCalls, nil)
	end := time.Now().Add(previewTime)
	for i := range records {
		if i > 0 && time.Now().After(end) {
			break
		}
		p.Calls++
		call := &records[i].Call
		t := Try(&d, rules, transform, call)
		if t.Reason == "" {
			p.Sent++
		} else {
			p.count(t)
		}
		if (transform != nil || rules != nil) && t.Routed && len(p.Examples) < previewExamples {
			plain, _ := webhook.Payload(call.Body, d.AliasFields) // t has the error
			p.Examples = append(p.Examples, Example{Call: call, MessageID: call.ID, Input: plain, Body: t.Body, Reason: t.Reason, Failed: t.Failed})
		}
	}
	slices.SortFunc(p.Reasons, func(a, b ReasonCount) int {
		return cmp.Or(b.Calls-a.Calls, strings.Compare(a.Reason, b.Reason))
	})
	return p
}

// count counts a call that would not be sent.
func (p *Preview) count(t Trial) {
	at := slices.IndexFunc(p.Reasons, func(r ReasonCount) bool { return r.Reason == t.Reason })
	if at < 0 {
		at = len(p.Reasons)
		p.Reasons = append(p.Reasons, ReasonCount{Reason: t.Reason, Failed: t.Failed})
	}
	p.Reasons[at].Calls++
}

// A Trial is the result of applying a destination's settings to a call.
type Trial struct {
	Body   []byte // body of the request, or nil if the call would not be sent
	Routed bool   // whether the filters select the call
	Reason string // why the call would not be sent
	Failed bool   // whether the call would fail, instead of being filtered
}

// Try applies the settings of a destination to a call, without sending it. rules is the compiled
// redaction, and transform is the compiled transform. Both may be nil.
func Try(d *tracking.Destination, rules *redact.Rules, transform webhook.Transform, call *tracking.Call) Trial {
	if deliver, reason := routing.Route(d, call); !deliver {
		return Trial{Reason: reason}
	}
	body, err := sender.Body(&d.Settings, sender.Content{ID: call.ID, Body: rules.Apply(nil, call.Body), Transform: transform})
	if err != nil {
		return Trial{Routed: true, Reason: strings.TrimPrefix(err.Error(), "webhook: "), Failed: !errors.Is(err, sender.ErrFiltered)}
	}
	return Trial{Routed: true, Body: body}
}
