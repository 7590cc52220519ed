package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	saveInterval    = time.Minute
	lastSaveTimeout = 5 * time.Second
)

// Statistics gives a Persister access to the counters of its owner. Keys consist of
// lower-case letters and digits. The Persister calls one method at a time, and calls
// Restore first.
type Statistics[R versioned] interface {
	// Restore adds the stored records to the counters, except deleted ones. damaged
	// reports whether some records are unreadable; the Persister replaces them.
	Restore(stored map[string]R, damaged bool)
	// Changed returns the keys of the records that changed since their last Record call.
	Changed() []string
	// Record returns a copy of a record and marks it as unchanged. If ok is false, the
	// record does not exist and is deleted from the store.
	Record(key string) (record R, ok bool)
}

// A Persister saves the records of its owner to a store, and restores them after a
// restart. MarkDeleted, IsDeleted and MarkChanged may be called with the owner's lock
// held; they do nothing before Start.
type Persister[R versioned] struct {
	prefix, about string
	version       int

	store   Store
	log     *slog.Logger
	records Statistics[R]
	stop    context.CancelFunc // nil until Start
	running sync.WaitGroup

	saved map[string]bool // keys that may be in the store; nil until the records are restored. Used by run, then by Stop.

	mu      sync.Mutex      // guards the fields below
	deleted map[string]bool // IDs deleted between Start and the end of Restore; nil otherwise
	changed map[string]bool // keys to write or delete; nil until Start
}

// NewPersister returns a Persister for records under a prefix, with the given version of their
// format. about names the records in log lines, such as "the shapes of events".
func NewPersister[R versioned](prefix, about string, version int) *Persister[R] {
	return &Persister[R]{prefix: prefix, about: about, version: version}
}

// Start restores the stored records in the background, and then saves changes every
// minute until Stop is called.
func (p *Persister[R]) Start(store Store, log *slog.Logger, records Statistics[R]) {
	ctx, cancel := context.WithCancel(context.Background())
	p.store, p.log, p.records, p.stop = store, log, records, cancel
	p.mu.Lock()
	p.deleted, p.changed = map[string]bool{}, map[string]bool{}
	p.mu.Unlock()
	p.running.Go(func() { p.run(ctx) })
}

// MarkDeleted excludes an ID from Restore, and reports whether Restore is still pending.
// The owner must hold the lock that Restore holds when it calls IsDeleted.
func (p *Persister[R]) MarkDeleted(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted == nil {
		return false
	}
	p.deleted[id] = true
	return true
}

// IsDeleted reports whether an ID was deleted after Start. Only Restore may call it.
func (p *Persister[R]) IsDeleted(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deleted[id]
}

// MarkChanged schedules a record to be saved, or deleted if it no longer exists.
func (p *Persister[R]) MarkChanged(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed != nil {
		p.changed[key] = true
	}
}

// Stop saves all changes. It does nothing if Start was not called.
func (p *Persister[R]) Stop() {
	if p.stop == nil {
		return
	}
	p.stop()
	p.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lastSaveTimeout)
	defer cancel()
	p.save(ctx)
}

// run restores the records, and saves changes until ctx ends.
func (p *Persister[R]) run(ctx context.Context) {
	for {
		if p.saved != nil {
			p.save(ctx)
		} else if err := p.load(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("stored statistics cannot be read; trying again", "records", p.about, "in", saveInterval, "error", err)
		}
		if pause.For(ctx, saveInterval) != nil {
			return
		}
	}
}

// load reads and restores all records.
func (p *Persister[R]) load(ctx context.Context) error {
	keys, err := Keys(ctx, p.store, p.prefix)
	if err != nil {
		return err
	}
	stored, saved, damaged := map[string]R{}, map[string]bool{}, false
	for _, key := range keys {
		encoded, _, err := p.store.Get(ctx, p.name(key))
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mockserver: state %s: %w", p.name(key), err)
		}
		saved[key] = true
		record, err := decode[R](encoded, p.version)
		if err != nil {
			p.log.Warn("a stored record cannot be read; some or all statistics of this kind start from zero", "records", p.about, "record", p.name(key), "error", err)
			p.MarkChanged(key)
			damaged = true
			continue
		}
		stored[key] = record
	}
	p.records.Restore(stored, damaged)
	p.saved = saved
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deleted = nil
	return nil
}

// save writes the changed records. Before the stored records are restored it does
// nothing, because it would overwrite them.
func (p *Persister[R]) save(ctx context.Context) {
	if p.saved == nil {
		return
	}
	p.mu.Lock()
	keys := p.changed
	p.changed = map[string]bool{}
	p.mu.Unlock()
	for _, key := range p.records.Changed() {
		keys[key] = true
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := p.write(ctx, key); err != nil {
			p.MarkChanged(key)
			errs = append(errs, fmt.Errorf("mockserver: state %s: %w", p.name(key), err))
		}
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, context.Canceled) {
		p.log.Warn("statistics cannot be saved; trying again", "records", p.about, "in", saveInterval, "error", err)
	}
}

// write saves or deletes one record.
func (p *Persister[R]) write(ctx context.Context, key string) error {
	record, ok := p.records.Record(key)
	if ok {
		encoded, err := encode(record)
		if err != nil {
			return err
		}
		p.saved[key] = true // even if Put fails: it may have stored the record
		return p.store.Put(ctx, p.name(key), encoded)
	}
	if !p.saved[key] {
		return nil
	}
	if err := p.store.Delete(ctx, p.name(key)); err != nil {
		return err
	}
	delete(p.saved, key)
	return nil
}

func (p *Persister[R]) name(key string) string { return p.prefix + "." + key }
