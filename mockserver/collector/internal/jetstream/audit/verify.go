package audit

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Verifier compares the ledger with a recount of the stored data.
type Verifier struct {
	*ledger.Recount
	Store  *store.Store
	Ledger *ledger.Live
	Waits  int // remaining number of waits for data in transit
}

const (
	// Waits is the number of waits for data in transit. waitPause is the duration of each wait.
	Waits     = 100
	waitPause = 50 * time.Millisecond
	// callsAtOnce and outcomesAtOnce limit the number of messages that are read ahead. A message
	// of CALLS contains up to 48 KB of IDs, and a message of OUTCOMES up to 256 KB.
	callsAtOnce    = 256
	outcomesAtOnce = 64
)

// Verify counts all calls since the base, and returns the count of each destination with its
// differences from the ledger.
func (v *Verifier) Verify(ctx context.Context, base *ledger.Ledger, now *ledger.State) ([]journal.Verification, error) {
	v.Recount = ledger.NewRecount(base, now)
	if err := v.readPending(ctx, base); err != nil {
		return nil, err
	}
	if err := v.read(ctx, base.Outcomes); err != nil {
		return nil, err
	}
	if err := v.checkPending(ctx); err != nil {
		return nil, err
	}
	return v.Compare(), nil
}

// readPending adds the calls that were pending when the base was stored with an accepted loss.
func (v *Verifier) readPending(ctx context.Context, base *ledger.Ledger) error {
	first := base.Calls + 1
	for _, a := range base.Accounts {
		if a.Unattempted > 0 {
			first = min(first, a.Floor+1)
		}
	}
	if first > base.Calls {
		return nil
	}
	t := v.Store.TailCalls(first, func(parsed *record.Calls) error {
		for name, a := range base.Accounts {
			v.Accounts[name].AddUnattempted(a, parsed)
		}
		return nil
	})
	t.Batch, t.Whole, t.Last = callsAtOnce, v.Now.Losses.IsLostCall, base.Calls
	return t.Scan(ctx)
}

// read counts OUTCOMES. It reads CALLS concurrently, up to the calls of the current outcome.
func (v *Verifier) read(ctx context.Context, outcomes uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	calls := make(chan *record.Calls, 64)
	var failed error // result of readCalls
	var reading sync.WaitGroup
	after := v.Calls
	reading.Go(func() { failed = v.readCalls(ctx, after, calls) })
	defer reading.Wait()
	defer cancel()
	t := v.Store.TailOutcomes(outcomes+1, func(m *record.Outcomes) error {
		for i := range m.All {
			v.advance(calls, m.All[i].Ref.Seq)
			v.Count(&m.All[i])
		}
		return nil
	})
	t.Batch, t.Whole, t.Last, t.Must = outcomesAtOnce, v.Now.Losses.IsLostOutcome, v.Now.Outcomes, true
	if err := t.Scan(ctx); err != nil {
		return err
	}
	v.advance(calls, v.Now.Calls)
	reading.Wait()
	return failed
}

// readCalls sends the messages of CALLS after a sequence number, and closes the channel.
func (v *Verifier) readCalls(ctx context.Context, after uint64, calls chan<- *record.Calls) error {
	defer close(calls)
	t := v.Store.TailCalls(after+1, func(parsed *record.Calls) error {
		parsed.IDs = "" // releases the memory of the IDs
		select {
		case calls <- parsed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	t.Batch, t.Whole, t.Last, t.Must = callsAtOnce, v.Now.Losses.IsLostCall, v.Now.Calls, true
	return t.Scan(ctx)
}

// advance counts messages of CALLS up to a sequence number.
func (v *Verifier) advance(calls <-chan *record.Calls, to uint64) {
	for v.Calls < to {
		m, ok := <-calls
		if !ok {
			v.Calls = to
			return
		}
		v.Calls = m.Seq
		v.Accept(m)
	}
}

// checkPending checks that all pending calls will be attempted.
func (v *Verifier) checkPending(ctx context.Context) error {
	if err := v.findStored(ctx); err != nil {
		return err
	}
	for name, a := range v.Accounts {
		if err := v.checkUndelivered(ctx, name, a); err != nil {
			return err
		}
		if err := v.checkWaiting(ctx, name, a); err != nil {
			return err
		}
	}
	return nil
}

// checkUndelivered checks that all unattempted calls will be delivered.
func (v *Verifier) checkUndelivered(ctx context.Context, name string, a *ledger.Recounted) (err error) {
	to := v.Now.Tried[name]
	a.Undelivered.All(func(ref record.Ref, calls int, at time.Time) bool {
		if ref.Seq <= to.Floor {
			a.Problem("message %d of CALLS, part %d: it was never attempted, but according to the ledger all messages up to %d were", ref.Seq, ref.Part, to.Floor)
			return true
		}
		if ref.Seq <= to.Acknowledged {
			var ended bool
			if ended, err = v.firstEnded(ctx, name, ref); err != nil {
				return false
			}
			if !ended {
				a.Problem("message %d of CALLS, part %d: it was never attempted, but delivery continues after message %d", ref.Seq, ref.Part, to.Acknowledged)
				return true
			}
		}
		a.AddPending(calls, at)
		return true
	})
	return err
}

// checkWaiting checks that RETRY contains all retries.
func (v *Verifier) checkWaiting(ctx context.Context, name string, a *ledger.Recounted) error {
	for number, w := range a.Waiting {
		if ref := record.RefOf(number); !w.Stored {
			ended, err := v.endedMeanwhile(ctx, name, ref, int(w.Attempt))
			if err != nil {
				return err
			}
			if !ended {
				a.Problem("message %d of CALLS, part %d: attempt %d is pending, but it is missing in RETRY", ref.Seq, ref.Part, w.Attempt)
				continue
			}
		}
		a.AddPending(int(w.Calls), time.UnixMilli(w.Accepted))
	}
	return nil
}

// findStored marks the retries that are in RETRY.
func (v *Verifier) findStored(ctx context.Context) error {
	byToken := map[string]*ledger.Recounted{}
	for name, a := range v.Accounts {
		if len(a.Waiting) > 0 {
			byToken[record.Token(name)] = a
		}
	}
	if len(byToken) == 0 {
		return nil
	}
	return v.Store.EachRetry(ctx, func(destination, number string) {
		a := byToken[destination]
		n, err := strconv.ParseUint(number, 10, 64)
		if a == nil || err != nil {
			return
		}
		if w, ok := a.Waiting[n]; ok {
			w.Stored = true
			a.Waiting[n] = w
		}
	})
}

// firstEnded reports whether the first attempt was finished after the recount started, possibly by
// another process.
func (v *Verifier) firstEnded(ctx context.Context, name string, ref record.Ref) (bool, error) {
	return v.eventually(ctx, func() (ended bool, err error) {
		ended = true
		v.Ledger.With(name, func(a *ledger.Account) { ended = a.Ended(ref) })
		return ended, nil
	})
}

// endedMeanwhile reports whether a retry was finished after the recount started, or is stored now. The
// retry may have been in transit during the recount.
func (v *Verifier) endedMeanwhile(ctx context.Context, name string, ref record.Ref, attempt int) (bool, error) {
	return v.eventually(ctx, func() (bool, error) {
		ended := true
		v.Ledger.With(name, func(a *ledger.Account) {
			r, ok := a.Retries[ref]
			ended = !ok || r.Attempt != attempt
		})
		if ended {
			return true, nil
		}
		return v.Store.HasRetry(ctx, name, ref, attempt)
	})
}

// eventually reports whether a condition holds now or soon. All calls share v.Waits, so the total wait
// is short even if many conditions do not hold.
func (v *Verifier) eventually(ctx context.Context, holds func() (bool, error)) (bool, error) {
	for {
		ok, err := holds()
		if ok || err != nil || v.Waits == 0 {
			return ok, err
		}
		v.Waits--
		if err := pause.For(ctx, waitPause); err != nil {
			return false, err
		}
	}
}
