package jetstream_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// extra is the name of a destination that is added, changed and removed at run time.
const extra = "extra"

// rules are the settings of the destination extra that its receiver checks.
type rules struct {
	denied    string // type of the calls that must not arrive
	perSecond int    // maximum rate of each process; 0 is unlimited
	ordered   bool
	batch     int       // maximum number of calls in a request, or 0
	transform bool      // whether a transform retries some calls
	since     time.Time // zero if the settings are unknown
}

// apply reports whether a process must know the rules. The lock is held.
func (s rules) apply(p *instance) bool {
	return !s.since.IsZero() && time.Since(s.since) > propagation && p.sees()
}

// changeExtra adds, changes or removes the destination.
func (w *world) changeExtra() {
	n, to := w.random.IntN(6), rules{denied: types[w.random.IntN(len(types))], perSecond: w.random.IntN(3) * w.random.IntN(10), ordered: w.random.IntN(2) == 0, batch: w.random.IntN(2) * w.random.IntN(8), transform: w.random.IntN(2) == 0}
	onFailure := []tracking.OnFailure{tracking.OnFailureHold, tracking.OnFailureOvertake}[w.random.IntN(2)]
	ended := w.receivers[extra].changeRules()
	change := func(d *tracking.Destination) error {
		d.Types.Deny, d.MaxPerSecond, d.Ordering = []string{to.denied}, float64(to.perSecond), tracking.Ordering{}
		d.Batch, d.Transform = webhook.Batch{Calls: to.batch}, ""
		if to.transform {
			d.Transform = "."
		}
		if to.ordered {
			d.Ordering = tracking.Ordering{Order: tracking.OrderUser, OnFailure: onFailure}
		}
		return nil
	}
	w.background("change of "+extra, func(p *instance) {
		d := tracking.Destination{Name: extra, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://" + extra}}}}
		ctx, now := p.t.Context(), rules{}
		defer func() { ended(now) }()
		switch n {
		case 0:
			_ = p.engine.RemoveDestination(ctx, extra, true) // it may not exist
		case 1, 2:
			_ = p.engine.AddDestination(ctx, d) // it may exist
		default:
			if p.engine.ChangeDestination(ctx, extra, change) == nil {
				to.ordered = to.ordered && onFailure == tracking.OnFailureHold // a retry may overlap with a call that has overtaken it
				p.note("%s: now it has the settings %+v", extra, to)
				now, now.since = to, time.Now()
			}
		}
	})
}

// changeRules records that the rules are unknown. It returns a function that ends the change: it
// records new rules, unless another change has begun in the meantime or has not ended.
func (r *receiver) changeRules() (ended func(rules)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rules = rules{}
	r.changes++
	r.changing++
	changes := r.changes
	return func(to rules) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changing--
		if r.changes == changes && r.changing == 0 {
			r.rules = to
		}
	}
}

// checkRules checks a request when it begins. The lock is held.
func (r *receiver) checkRules(p *instance, id string, body []byte) {
	s := r.rules
	if !s.apply(p) {
		p.paced = nil
		return
	}
	if strings.Contains(string(body), `"type":"`+s.denied+`"`) {
		r.problem("%s sends %s to %s, which excludes the type %s since %v", p.name, id, r.host, s.denied, s.since.Sub(start))
	}
	if s.perSecond == 0 || s.batch > 0 { // the calls of a batch arrive at the same time
		return
	}
	const tolerance = 20 * time.Millisecond // the limiter makes up for short delays
	p.paced = append(p.paced, time.Now())
	if before := len(p.paced) - 1 - s.perSecond; before >= 0 && time.Since(p.paced[before]) < time.Second-tolerance {
		r.problem("%s sends %s to %s, the call %d within %v, with a limit of %d per second", p.name, id, r.host, s.perSecond+1, time.Since(p.paced[before]), s.perSecond)
	}
}

// A plan is the tracking plan of all sources. It implements engine.Plans. While it is broken, it
// quarantines the calls of one type.
type plan struct{ *world }

// Judge implements engine.Plans.
func (plan) Judge(*tracking.Call, []byte) (v ingest.Verdict) { return v }

// Quarantine implements engine.Plans.
func (p plan) Quarantine(c *tracking.Call) (reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.Type == p.quarantined {
		if _, n := userOf(c.ID); n > 0 { // it has ended, and may be delivered after later calls
			p.receivers["crm"].visit(c.ID).exempt = true
		}
		return "the type is not in the plan"
	}
	return ""
}

// changePlan breaks the plan, or repairs it.
func (w *world) changePlan() {
	typ := ""
	if n := w.random.IntN(2 * len(types)); n < len(types) {
		typ = types[n]
	}
	w.note("the plan quarantines %q", typ)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quarantined, w.quarantinedAt = typ, time.Now()
}

// checkPlan checks that no call arrives that was accepted after the plan had quarantined its type. The
// lock is held.
func (r *receiver) checkPlan(p *instance, id string, body []byte) {
	if r.quarantined == "" {
		return
	}
	var c struct {
		Type      string
		Timestamp time.Time // not after the time of acceptance
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Type == r.quarantined && c.Timestamp.After(r.quarantinedAt) {
		r.problem("%s sends %s to %s, although the plan quarantines the type %s since %v; %v", p.name, id, r.host, c.Type, r.quarantinedAt.Sub(start), err)
	}
}

// transforms returns a function that compiles each program to a transform that retries some calls.
func (w *world) transforms(string) (webhook.Transform, error) {
	return func(body []byte) ([]byte, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.calm && w.chanceLocked("transform", 8) == 0 {
			return nil, webhook.ErrRetryTransform
		}
		return body, nil
	}, nil
}
