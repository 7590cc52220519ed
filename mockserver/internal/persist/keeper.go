package persist

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
	// Restore adds what an earlier process wrote to what was counted meanwhile, but for what
	// was forgotten. damaged reports whether records cannot be read; they are written anew.
	Restore(stored map[string]R, damaged bool)
	// Changed returns the keys of the records that are not as they were written.
	Changed() []string
	// Record copies a record, which is taken for written from now on, and reports whether
	// there is one. Where there is none, it is removed from the store.
	Record(key string) (R, bool)
}

// A Keeper keeps records over restarts. Owners may hold a lock of theirs when they call
// Forget, Forgot and Rewrite, which do nothing where nothing is kept.
type Keeper struct {
	prefix, about string
	store         state.Store
	log           *slog.Logger
	load, save    func(context.Context) error

	loaded  bool               // what was written before is known; of the goroutine, and then of Stop
	stop    context.CancelFunc // nil until Start
	running sync.WaitGroup

	mu        sync.Mutex      // guards what follows
	forgotten map[string]bool // before what was written is known; nil from then on, and until Start
	rewrite   map[string]bool // the keys of records that are to be written or removed; nil until Start
}

// New returns a Keeper of what is in a store under a prefix. In the log it is what about
// says, such as "the shapes of events".
func New(prefix, about string) *Keeper { return &Keeper{prefix: prefix, about: about} }

// Start reads what is stored, and writes what changes from now on. It returns at once; Stop
// follows. Records have the version of their format.
func Start[R interface{ format() int }](k *Keeper, store state.Store, log *slog.Logger, version int, records Records[R]) {
	ctx, cancel := context.WithCancel(context.Background())
	k.store, k.log, k.stop = store, log, cancel
	k.load = func(ctx context.Context) error { return load(ctx, k, version, records) }
	k.save = func(ctx context.Context) error { return save(ctx, k, records) }
	k.mu.Lock()
	k.forgotten, k.rewrite = map[string]bool{}, map[string]bool{}
	k.mu.Unlock()
	k.running.Go(func() { k.run(ctx) })
}

// Forget has what is stored of something forgotten too, and reports whether that is still to
// be read. The owner must hold the lock under which Restore asks Forgot.
func (k *Keeper) Forget(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.forgotten == nil {
		return false
	}
	k.forgotten[id] = true
	return true
}

// Forgot reports, to Restore, whether something was forgotten meanwhile.
func (k *Keeper) Forgot(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.forgotten[id]
}

// Rewrite has a record written, or removed, whether or not it has changed.
func (k *Keeper) Rewrite(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rewrite != nil {
		k.rewrite[key] = true
	}
}

// Stop writes what has changed. Nothing is written if Start was not called.
func (k *Keeper) Stop() {
	if k.stop == nil {
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
	stored, damaged := map[string]R{}, false
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
			k.Rewrite(key)
			damaged = true
			continue
		}
		stored[key] = record
	}
	records.Restore(stored, damaged)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten = nil
	return nil
}

// save writes the records that have changed.
func save[R any](ctx context.Context, k *Keeper, records Records[R]) error {
	k.mu.Lock()
	keys := k.rewrite
	k.rewrite = map[string]bool{} // for what comes from now on
	k.mu.Unlock()
	for _, key := range records.Changed() {
		keys[key] = true
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := write(ctx, k, key, records); err != nil {
			k.Rewrite(key)
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
