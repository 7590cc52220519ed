package persist

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

const (
	// saveEvery is how often what has changed is written.
	saveEvery = time.Minute
	// lastSave is how long the write at the end may take.
	lastSave = 5 * time.Second
)

// Records are what is kept, by keys of lower-case letters and digits. All but Restore are
// called only after it, and none while another runs.
type Records[R any] interface {
	// Restore adds what an earlier process wrote to what was counted meanwhile. damaged
	// are the keys of records that cannot be read.
	Restore(stored map[string]R, damaged []string)
	// Changed returns the keys of the records that are not as they were written.
	Changed() []string
	// Record copies a record, which is taken for written from now on, and reports whether
	// there is one. Where there is none, it is removed from the store.
	Record(key string) (R, bool)
	// NotWritten has a record written again.
	NotWritten(key string)
}

// A Keeper keeps records over restarts.
type Keeper struct {
	prefix, about string
	store         state.Store
	log           *slog.Logger
	load, save    func(context.Context) error

	loaded  bool // what was written before is known; of the goroutine, and then of Stop
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start reads what is in a store under a prefix, and writes what changes from now on. It
// returns at once; Stop follows. Records have the version of their format. In the log
// they are what about says, such as "the shapes of events".
func Start[R interface{ format() int }](store state.Store, log *slog.Logger, prefix, about string, version int, records Records[R]) *Keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &Keeper{prefix: prefix, about: about, store: store, log: log, stop: cancel}
	k.load = func(ctx context.Context) error { return load(ctx, k, version, records) }
	k.save = func(ctx context.Context) error { return save(ctx, k, records) }
	k.running.Go(func() { k.run(ctx) })
	return k
}

// Stop writes what has changed. A nil Keeper keeps nothing.
func (k *Keeper) Stop() {
	if k == nil {
		return
	}
	k.stop()
	k.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), lastSave)
	defer cancel()
	k.try(ctx)
}

// run loads, and saves from time to time, until ctx ends.
func (k *Keeper) run(ctx context.Context) {
	for {
		if k.loaded {
			k.try(ctx)
		} else if err := k.load(ctx); err == nil {
			k.loaded = true
		} else if ctx.Err() == nil {
			k.log.Warn(k.about+" that were stored cannot be read; they will be tried again", "in", saveEvery, "error", err)
		}
		if pause.For(ctx, saveEvery) != nil {
			return
		}
	}
}

// try saves, unless what was written before is not known: it would be lost.
func (k *Keeper) try(ctx context.Context) {
	if !k.loaded {
		return
	}
	if err := k.save(ctx); err != nil && !errors.Is(err, context.Canceled) {
		k.log.Warn(k.about+" cannot be stored; what has changed will be written again", "error", err)
	}
}

// load reads all records and hands them on.
func load[R interface{ format() int }](ctx context.Context, k *Keeper, version int, records Records[R]) error {
	keys, err := state.Keys(ctx, k.store, k.prefix)
	if err != nil {
		return err
	}
	stored := map[string]R{}
	var damaged []string
	for _, key := range keys {
		encoded, _, err := k.store.Get(ctx, k.name(key))
		if errors.Is(err, state.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mockserver: state %s: %w", k.name(key), err)
		}
		record, err := decode[R](encoded, version)
		if err != nil {
			k.log.Warn("a record of "+k.about+" cannot be read; what was in it is counted anew", "record", k.name(key), "error", err)
			damaged = append(damaged, key)
			continue
		}
		stored[key] = record
	}
	records.Restore(stored, damaged)
	return nil
}

// save writes the records that have changed.
func save[R any](ctx context.Context, k *Keeper, records Records[R]) error {
	var errs []error
	for _, key := range records.Changed() {
		if err := write(ctx, k, key, records); err != nil {
			records.NotWritten(key)
			errs = append(errs, fmt.Errorf("mockserver: state %s: %w", k.name(key), err))
		}
	}
	return errors.Join(errs...)
}

func write[R any](ctx context.Context, k *Keeper, key string, records Records[R]) error {
	record, ok := records.Record(key)
	if !ok {
		return k.store.Delete(ctx, k.name(key))
	}
	encoded, err := encode(record)
	if err != nil {
		return err
	}
	return k.store.Put(ctx, k.name(key), encoded)
}

func (k *Keeper) name(key string) string { return k.prefix + "." + key }
