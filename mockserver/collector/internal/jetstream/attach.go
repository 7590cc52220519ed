package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func (j *Journal) Attach(ctx context.Context, destination string, sources []string) (journal.Reader, error) {
	j.attaching.Lock()
	defer j.attaching.Unlock()
	if err := j.open(); err != nil {
		return nil, err
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	if j.Shared {
		publish := func(ctx context.Context) error { return j.publishPresence(ctx, destination) }
		if err := j.Retry(ctx, publish); err != nil { // before Open: otherwise other collectors could treat the destination as an orphan
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	if !j.isAttached(destination, sources) {
		if err := j.queues.ConnectSources(ctx, destination, sources); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
		c := record.Control{Name: destination, Sources: sources}
		if err := j.control(ctx, destination, c); err != nil {
			return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
		}
	}
	r, err := j.queues.Open(ctx, destination)
	if err != nil {
		return nil, fmt.Errorf("journal: attaching %q: %w", destination, err)
	}
	return r, nil
}

func (j *Journal) isAttached(destination string, sources []string) bool {
	same := false
	return j.ledger.With(destination, func(a *ledger.Account) {
		same = slices.Equal(a.Scopes[len(a.Scopes)-1].Sources, sources)
	}) && same
}

// control stores a control message. It returns when the ledger has read the message.
func (j *Journal) control(ctx context.Context, destination string, c record.Control) error {
	m := nats.NewMsg(j.Names.Subject(record.KindAttach, record.Token(destination)))
	m.Header.Set(record.HeaderControl, c.Header())
	record.SetTime(m.Header, time.Now())
	seq, err := j.Publish(ctx, m)
	if err != nil {
		return err
	}
	j.recordStored(seq)
	if err := j.ledger.Reached(ctx, seq, 0); err != nil {
		return err
	}
	j.snapshotNow(ctx)
	return nil
}

// Detach removes a destination with its pending and failed calls.
func (j *Journal) Detach(ctx context.Context, destination string) error {
	j.attaching.Lock()
	defer j.attaching.Unlock()
	if err := j.open(); err != nil {
		return err
	}
	if j.ledger.With(destination, func(*ledger.Account) {}) {
		if err := j.control(ctx, destination, record.Control{Name: destination, Detach: true}); err != nil {
			return fmt.Errorf("journal: detaching %q: %w", destination, err)
		}
	}
	j.queues.Leave(destination, math.MaxUint64)
	if err := j.clear(ctx, destination); err != nil {
		return fmt.Errorf("journal: %q is detached, but its data was not completely removed: %w", destination, err)
	}
	return nil
}

// clear removes the consumers, retries, failed calls and order lease of a destination.
func (j *Journal) clear(ctx context.Context, destination string) error {
	consumer, t := j.Names.Consumer(destination), record.Token(destination)
	var errs []error
	for _, kind := range []string{record.StreamCalls, record.StreamRetry} {
		err := j.JS.DeleteConsumer(ctx, j.Names.Stream(kind), consumer)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			errs = append(errs, err)
		}
	}
	for subject, kind := range map[string]string{"at": record.StreamRetry, "due": record.StreamRetry, "f": record.StreamFailed, "m": record.StreamFailed} {
		errs = append(errs, j.JS.Purge(ctx, j.Names.Stream(kind), j.Names.Subject(subject, t, "*"), 0))
	}
	errs = append(errs, j.JS.Purge(ctx, j.Names.Stream(record.StreamState), j.Names.Subject("s", "order", t), 0))
	return errors.Join(errs...)
}

// Each collector of a cluster publishes its presence: the names of its destinations. If a
// destination was removed from every configuration, no collector lists it. Such an orphan must be
// detached, because it would collect calls until they expire. A restarting collector is absent for
// some time, so a destination is detached only if no collector has listed it for a long time.

const (
	// The presence is renewed every presenceEvery and expires after presenceTTL.
	presenceEvery = 10 * time.Second
	presenceTTL   = time.Minute
	// orphanAfter is how long a destination must be an orphan before it is detached. By then, its
	// calls have reached the end of their retry window.
	orphanAfter = webhook.Window
	// orphanPause is the longest pause between two checks. After a longer pause, for example
	// because the machine was suspended, the observation starts again.
	orphanPause = 10 * time.Minute
)

// renewPresence renews this process's presence and detaches orphans.
func (j *Journal) renewPresence() {
	var seen orphans
	for pause.For(j.Ctx, presenceEvery) == nil {
		j.attaching.Lock() // otherwise an outdated list could replace the list of a concurrent Attach
		err := j.publishPresence(j.Ctx)
		j.attaching.Unlock()
		if err != nil && j.Ctx.Err() == nil {
			j.Log.Debug("cannot publish the list of destinations to the other collectors", "error", err)
		}
		if err := j.detachOrphans(j.Ctx, &seen, time.Now()); err != nil && j.Ctx.Err() == nil {
			j.Log.Warn("cannot check for destinations that are no longer configured; will retry", "error", err)
		}
	}
}

// publishPresence publishes the destinations of this process, and those that it is attaching, to the other
// collectors. The caller must hold j.attaching.
func (j *Journal) publishPresence(ctx context.Context, attaching ...string) error {
	names := slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(attaching, maps.Keys(j.queues.Attached())))))
	m := nats.NewMsg(j.Names.Subject("s", "has", strconv.FormatUint(j.Writer, 16)))
	m.Data, _ = json.Marshal(names) // a list of strings can always be marshaled
	m.Header.Set("Nats-TTL", presenceTTL.String())
	_, err := j.Publish(ctx, m)
	return err
}

// orphaned returns the attached destinations that no process lists.
func (j *Journal) orphaned(ctx context.Context) ([]string, error) {
	own := j.queues.Attached()
	names := slices.DeleteFunc(j.ledger.Destinations(), func(name string) bool { return own[name] > 0 })
	if len(names) == 0 {
		return nil, nil
	}
	err := j.EachPresence(ctx, func(_ uint64, listed []string) {
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(listed, name) })
	})
	return names, err
}

// orphans records since when destinations have been orphans.
type orphans struct {
	since  map[string]time.Time // when each destination was first seen as an orphan
	looked time.Time            // time of the last check
}

// detachOrphans detaches destinations that have been orphans for orphanAfter.
func (j *Journal) detachOrphans(ctx context.Context, seen *orphans, now time.Time) error {
	names, err := j.orphaned(ctx)
	if err != nil {
		return err
	}
	if seen.since == nil || now.Sub(seen.looked) > orphanPause {
		seen.since = map[string]time.Time{}
	}
	seen.looked = now
	maps.DeleteFunc(seen.since, func(name string, _ time.Time) bool { return !slices.Contains(names, name) })
	for _, name := range names {
		since, known := seen.since[name]
		switch {
		case !known:
			seen.since[name] = now
			j.Log.Warn("no collector has this destination; it will be detached in four hours unless a collector attaches it", "destination", name)
		case now.Sub(since) >= orphanAfter:
			pending := int64(0)
			j.ledger.With(name, func(a *ledger.Account) { pending, _ = a.Pending() })
			if err := j.Detach(ctx, name); err != nil {
				return err
			}
			delete(seen.since, name)
			j.Log.Warn("detached a destination that no collector had for four hours", "destination", name, "pending", pending)
		}
	}
	return nil
}
