package jetstream_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// settleWithin is the longest time until all calls are delivered after the last fault: a retry waits for
// at most 10 minutes, and a receiver may request a pause of 5 minutes.
const settleWithin = 12 * time.Minute

// endFaults ends all faults and starts all collectors.
func (w *world) endFaults() {
	w.note("the faults end")
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for _, c := range w.collectors {
		if c.process == nil {
			c.start()
		}
	}
	for _, d := range w.settings.Destinations {
		r := w.receivers[d.Name]
		r.change(healthy)
		r.paused(false)
		if err := w.collectors[0].process.engine.Resume(w.t.Context(), d.Name); err != nil {
			w.t.Fatalf("seed %d: resuming: %v", w.seed, err)
		}
	}
}

// settle waits until no calls are pending, and compares the ledgers with the sent calls and with the
// calls that the receivers have accepted.
func (w *world) settle() {
	began := time.Now()
	for w.pending() > 0 {
		w.sleep(time.Second)
		if time.Since(began) > settleWithin {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.problem("calls are still pending")
			return
		}
	}
	w.note("nothing is pending")
	p := w.running()[0]
	proofs, err := p.engine.Verify(w.t.Context())
	if err != nil {
		w.t.Fatalf("seed %d: verifying: %v", w.seed, err)
	}
	for _, proof := range proofs {
		w.check(p, proof)
	}
}

// pending returns the number of pending calls. It checks all ledgers.
func (w *world) pending() (n int64) {
	for _, p := range w.running() {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		ledgers, err := p.engine.Ledger(ctx)
		cancel()
		w.mu.Lock()
		if err != nil {
			w.problem("%s cannot read the ledger: %v", p.name, err)
		}
		for _, l := range ledgers {
			n += l.Pending
			if !l.Holds() {
				w.problem("the ledger of %s at %s does not hold: %+v", l.Destination, p.name, l)
			}
		}
		w.mu.Unlock()
	}
	return n
}

// check compares the final ledger of a destination with the calls.
func (w *world) check(p *instance, v journal.Verification) {
	failed := map[string]bool{}
	err := p.engine.Failed(w.t.Context(), v.Destination, func(f journal.FailedCall) bool {
		failed[f.Call.ID] = true
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || !v.OK() {
		w.problem("verification of %s: %+v, %v", v.Destination, v, err)
	}
	r := w.receivers[v.Destination]
	var sent, unsure int64
	for _, s := range w.apps {
		d := w.settings.Destinations[slices.IndexFunc(w.settings.Destinations, func(d tracking.Destination) bool { return d.Name == v.Destination })]
		if len(d.Sources) > 0 && !slices.Contains(d.Sources, s.source.Name) {
			continue
		}
		sent, unsure = sent+int64(len(s.sent)), unsure+int64(s.unsure)
		for _, id := range s.sent {
			if r.visit(id).accepted == 0 && !failed[id] {
				w.problem("%s was neither received by %s nor is it listed as failed", id, v.Destination)
			}
		}
	}
	if v.Accepted < sent || v.Accepted > sent+unsure || v.Lost > 0 {
		w.problem("%d calls were sent to %s, and up to %d more may be stored: %s", sent, v.Destination, unsure, inText(v.Ledger))
	}
}

func inText(l tracking.Ledger) string {
	return fmt.Sprintf("accepted %d, delivered %d, failed %d, filtered %d, pending %d, lost %d", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
