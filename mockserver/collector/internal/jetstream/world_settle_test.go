package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// grace is the longest time until all calls are delivered, after all are due: a lease of a killed
// process expires, and another process takes over. A killed process may also have lost the results of
// deletions, which are sent again after a minute.
const grace, deletionGrace = time.Minute, 3 * time.Minute

// repair is the longest time until the calls of a failed replay are scheduled.
const repair = 2*time.Minute + 30*time.Second

// endFaults ends all faults and starts all collectors.
func (w *world) endFaults() {
	w.note("the faults end")
	w.mu.Lock()
	w.calm, w.calmAt = true, time.Now()
	w.quarantined = ""
	w.mu.Unlock()
	w.server.Refuse(false)
	for _, c := range w.collectors {
		if c.process == nil {
			c.start()
		}
	}
	for _, r := range w.receivers {
		r.change(healthy)
	}
	for _, c := range w.collectors {
		c.link.Cut(false)
		c.link.Silence(false)
	}
	w.tasks.Wait()
	w.sleep(residue) // requests in flight may still fail, or stop a destination
	for _, r := range w.receivers {
		r.mayRun()
	}
	w.await("all destinations are resumed", func() (failed error) {
		p := w.running()[0]
		for _, d := range p.engine.Settings().Destinations {
			failed = errors.Join(failed, p.engine.Resume(w.t.Context(), d.Name))
			if d.MaxPerSecond > 0 { // a backlog could take longer than the limits below
				w.receivers[d.Name].changeRules()
				failed = errors.Join(failed, p.engine.ChangeDestination(w.t.Context(), d.Name, func(d *tracking.Destination) error {
					d.MaxPerSecond = 0
					return nil
				}))
			}
		}
		return failed
	})
}

// settle waits until no calls are pending, replays the failed calls, and compares the ledgers with the
// sent calls and with the calls that the receivers have accepted.
func (w *world) settle() {
	w.mu.Lock()
	w.settling = true
	w.checkWork(workload{}, start)
	before, began := w.work, time.Now()
	w.mu.Unlock()
	p := w.running()[0]
	w.await("the last list is accepted", func() error { return p.sync(w.audience.choose()) })
	w.await("the calls of all lists are created", p.synced)
	w.await("nothing is pending", w.pending)
	w.awaitWithin(deletionGrace, "all deletion requests are complete", func() error { return w.checkDeletions(p) })
	w.await("the failed and quarantined calls are replayed", func() (failed error) {
		for _, d := range w.settings.Destinations {
			for _, state := range []tracking.State{tracking.StateFailed, tracking.StateFiltered} {
				_, err := p.engine.Replay(w.t.Context(), d.Name, engine.Selection{State: state})
				failed = errors.Join(failed, err)
			}
		}
		return failed
	})
	w.await("nothing is pending after a replay", w.pending)
	var proofs []journal.Verification
	w.await("the ledgers are verified", func() (err error) {
		proofs, err = p.engine.Verify(w.t.Context())
		return err
	})
	for _, proof := range proofs {
		if proof.Destination != extra {
			w.check(p, proof)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.audience.check(w)
	w.checkWork(before, began)
}

// await waits until done returns nil. The limit depends only on the schedule of the next attempts and
// on the pauses that the receivers have requested. A killed process may have stored a schedule that no
// other process has observed.
func (w *world) await(what string, done func() error) { w.awaitWithin(grace, what, done) }

func (w *world) awaitWithin(grace time.Duration, what string, done func() error) {
	last := w.lastSchedule(time.Now())
	w.note("awaiting within %v: %s", time.Until(last)+grace, what)
	for err := done(); err != nil; err = done() {
		if last = w.lastSchedule(last); time.Since(last) > grace {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.problem("%s: %v", what, err)
			return
		}
		w.sleep(time.Second)
	}
	w.note("%s: %v before the limit", what, time.Until(last)+grace)
}

// lastSchedule returns the last scheduled time, but at least last. A result with a schedule is stored
// when all calls of its entry have ended, possibly after a pause, so the last time may rise.
func (w *world) lastSchedule(last time.Time) time.Time {
	last = later(later(last, w.server.LastSchedule()), w.lastParked())
	w.mu.Lock()
	defer w.mu.Unlock()
	last = later(last, w.repaired)
	for _, at := range w.due {
		last = later(last, at)
	}
	for _, r := range w.receivers {
		last = later(last, r.held.until)
	}
	return last
}

// dueInNote matches the time of a call's next attempt in its note, as base-36 milliseconds. Only
// ordered destinations store it there.
var dueInNote = regexp.MustCompile(`~([0-9a-z]+)\+`)

// lastParked returns the latest next attempt in the stored notes of parked calls. The server does not
// schedule these attempts, and the process that stored the notes may have been killed.
func (w *world) lastParked() (last time.Time) {
	for _, pattern := range []string{"analytics.o", "analytics.o.*"} {
		for _, data := range w.server.Messages(pattern) {
			_, outcomes, err := record.DecodeOutcomes(data)
			if err != nil {
				w.t.Errorf("decoding outcomes: %v", err)
			}
			for _, o := range outcomes {
				for _, m := range dueInNote.FindAllStringSubmatch(strings.Join(o.Notes, " "), -1) {
					milliseconds, _ := strconv.ParseInt(m[1], 36, 64) // the pattern allows only digits
					last = later(last, time.UnixMilli(milliseconds))
				}
			}
		}
	}
	return last
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// checkLedger checks the ledgers of one process in the background.
func (w *world) checkLedger() {
	p := w.collectors[len(w.executed)%len(w.collectors)].process
	if p == nil {
		return
	}
	w.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		defer cancel()
		if ledgers, err := p.engine.Ledger(ctx); err == nil {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.checkEquation(p, ledgers)
		}
	})
}

// checkEquation checks ledgers. The lock is held.
func (w *world) checkEquation(p *instance, ledgers []tracking.Ledger) {
	for _, l := range ledgers {
		if !l.Holds() {
			w.problem("the ledger of %s at %s does not hold: %+v", l.Destination, p.name, l)
		}
	}
}

// pending returns an error if calls are pending. It checks all ledgers.
func (w *world) pending() error {
	n := int64(0)
	for _, p := range w.running() {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		ledgers, err := p.engine.Ledger(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("%s cannot read the ledger: %w", p.name, err)
		}
		w.mu.Lock()
		for _, l := range ledgers { // if a change failed, a removed destination may still be attached
			if slices.ContainsFunc(p.engine.Settings().Destinations, settings.DestinationNamed(l.Destination)) {
				n += l.Pending
			}
		}
		w.checkEquation(p, ledgers)
		w.mu.Unlock()
	}
	if n > 0 {
		return fmt.Errorf("%d calls are pending", n)
	}
	return nil
}

// check compares the final ledger of a destination with the calls.
func (w *world) check(p *instance, v journal.Verification) {
	failed := map[string]bool{}
	err := p.engine.Failed(w.t.Context(), v.Destination, false, func(f journal.FailedCall) bool {
		failed[f.Call.ID] = true
		return true
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil || !v.OK() {
		w.problem("verification of %s: %+v, %v", v.Destination, v, err)
	}
	r := w.receivers[v.Destination]
	var sent, unsure, notices int64
	for id := range r.visits {
		if strings.HasPrefix(id, "audience-") || strings.HasPrefix(id, "delete-") {
			notices++
		}
	}
	if w.kills > 0 { // the outcomes of filtered notices may have been stored without an event
		unsure += v.Filtered
	}
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
	if v.Accepted -= notices; v.Accepted < sent || v.Accepted > sent+unsure || v.Lost > 0 {
		w.problem("%d calls were sent to %s, and up to %d more may be stored: %s, including %d notices", sent, v.Destination, unsure, inText(v.Ledger), notices)
	}
}

func inText(l tracking.Ledger) string {
	return fmt.Sprintf("accepted %d, delivered %d, failed %d, filtered %d, pending %d, lost %d", l.Accepted, l.Delivered, l.Failed, l.Filtered, l.Pending, l.Lost)
}
