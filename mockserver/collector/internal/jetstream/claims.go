package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// On a cluster each process tells the others which destinations it has. One that has
// been taken out of the configuration of all of them would stay attached for ever
// otherwise: it would go on to get calls, which nobody works at and which are given up
// in the end. What no process has is either that, or of one that is being restarted;
// nothing but time tells them apart.

const (
	// claimEvery is how often a claim is renewed, and claimTTL how long it outlives its
	// process.
	claimEvery = 10 * time.Second
	claimTTL   = time.Minute
	// orphanAfter is how long no process may have had a destination before it is
	// detached: what was pending when it was taken out could not be delivered any more.
	orphanAfter = webhook.Window
	// orphanPause is how long after a look the next one must come, or what was seen
	// before does not count.
	orphanPause = 10 * time.Minute
)

// keepClaims renews the claim of this process, and looks what nobody claims.
func (j *Journal) keepClaims() {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	var seen orphans
	for {
		select {
		case <-j.Ctx.Done():
			return
		case now := <-tick.C:
			if err := j.claim(j.Ctx); err != nil && j.Ctx.Err() == nil {
				j.Log.Debug("the other collectors are not told which destinations this one has", "error", err)
			}
			if err := j.forgetOrphans(j.Ctx, &seen, now); err != nil && j.Ctx.Err() == nil {
				j.Log.Warn("whether a destination is no longer configured is not known; it is looked again", "error", err)
			}
		}
	}
}

// claim tells the others which destinations this process has.
func (j *Journal) claim(ctx context.Context) error {
	j.mu.Lock()
	names := slices.Sorted(maps.Keys(j.claims))
	j.mu.Unlock()
	m := nats.NewMsg(j.Names.Subject("s", "has", strconv.FormatUint(j.Writer, 16)))
	m.Data, _ = json.Marshal(names) // of strings: it cannot fail
	m.Header.Set("Nats-TTL", claimTTL.String())
	_, err := j.Publish(ctx, j.NC, m)
	return err
}

// setClaim says whether this process has a destination.
func (j *Journal) setClaim(destination string, has bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if has {
		j.claims[destination] = true
	} else {
		delete(j.claims, destination)
	}
}

// unclaimed returns the destinations that are attached and that no process has.
func (j *Journal) unclaimed(ctx context.Context) ([]string, error) {
	names := j.account.Destinations()
	j.mu.Lock()
	names = slices.DeleteFunc(names, func(name string) bool { return j.claims[name] })
	j.mu.Unlock()
	if len(names) == 0 {
		return nil, nil
	}
	t := j.Tail(record.StreamState, 1, func(m *nats.Msg, _ uint64) error {
		var claimed []string
		if err := json.Unmarshal(m.Data, &claimed); err != nil {
			return fmt.Errorf("journal: what another collector says it has cannot be read: %w", err)
		}
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(claimed, name) })
		return nil
	})
	t.Subjects = []string{j.Names.Subject("s", "has", "*")}
	err := t.Scan(ctx)
	return names, err
}

// orphans are the destinations that no process has.
type orphans struct {
	since  map[string]time.Time // they were seen to be
	looked time.Time            // the last time
}

// forgetOrphans detaches those that no process has had for orphanAfter.
func (j *Journal) forgetOrphans(ctx context.Context, seen *orphans, now time.Time) error {
	names, err := j.unclaimed(ctx)
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
			j.Log.Warn("no collector has a destination that the cluster keeps calls for; it is forgotten if none has it for four hours", "destination", name)
		case now.Sub(since) >= orphanAfter:
			pending := int64(0)
			j.account.With(name, func(b *ledger.Account) { pending, _ = b.Pending() })
			if err := j.Detach(ctx, name); err != nil {
				return err
			}
			delete(seen.since, name)
			j.Log.Warn("a destination that no collector has had for four hours is forgotten, with its calls", "destination", name, "pending", pending)
		}
	}
	return nil
}
