package shapes

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

const (
	// statePrefix begins the keys of what is written: shapes.0 and so on.
	statePrefix = "shapes"
	// maxSegment bounds a record, in bytes before it is compressed.
	maxSegment = 4 << 20
	// saveEvery is how often what has changed is written.
	saveEvery = time.Minute
	// lastSave is how long the write at the end may take.
	lastSave = 5 * time.Second
)

// Start reads what an earlier process wrote to a store, and writes what changes from now
// on. It returns at once; Stop follows.
func (s *Shapes) Start(store state.Store, log *slog.Logger) {
	ctx, cancel := context.WithCancel(context.Background())
	s.mu.Lock()
	s.keeper.kept = true
	s.mu.Unlock()
	s.keeper.store, s.keeper.log, s.keeper.stop = store, log, cancel
	s.keeper.running.Go(func() { s.keep(ctx) })
}

// Stop writes what has changed. Nothing is written if Start was not called.
func (s *Shapes) Stop() {
	if s.keeper.stop == nil {
		return
	}
	s.keeper.stop()
	s.keeper.running.Wait()
	s.keeper.stop = nil
	ctx, cancel := context.WithTimeout(context.Background(), lastSave)
	defer cancel()
	s.try(ctx)
}

// keep loads, and saves from time to time, until ctx ends.
func (s *Shapes) keep(ctx context.Context) {
	for {
		if !s.isLoaded() {
			if err := s.load(ctx); err != nil && ctx.Err() == nil {
				s.keeper.log.Warn("the shapes of events that were stored cannot be read; they will be tried again", "in", saveEvery, "error", err)
			}
		} else {
			s.try(ctx)
		}
		if pause.For(ctx, saveEvery) != nil {
			return
		}
	}
}

func (s *Shapes) isLoaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keeper.loaded
}

// try saves, unless what was written before is not known: it would be lost.
func (s *Shapes) try(ctx context.Context) {
	if !s.isLoaded() {
		return
	}
	if err := s.save(ctx); err != nil && !errors.Is(err, context.Canceled) {
		s.keeper.log.Warn("the shapes of events cannot be stored; what has changed will be written again", "error", err)
	}
}

// load reads all segments, and adds them to what came meanwhile. What cannot be read is
// told of, and written anew.
func (s *Shapes) load(ctx context.Context) error {
	keys, err := state.Keys(ctx, s.keeper.store, statePrefix)
	if err != nil {
		return err
	}
	var segments []segment
	var damaged []int
	for _, k := range keys {
		number, err := strconv.Atoi(k)
		if err != nil || number < 0 {
			continue
		}
		encoded, _, err := s.keeper.store.Get(ctx, statePrefix+"."+k)
		if errors.Is(err, state.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mockserver: state %s.%s: %w", statePrefix, k, err)
		}
		one, err := decode(encoded)
		if err != nil {
			s.keeper.log.Warn("a record of the shapes of events cannot be read; its events are counted anew", "record", statePrefix+"."+k, "error", err)
			damaged = append(damaged, number)
			continue
		}
		one.number = number
		segments = append(segments, one)
	}
	s.restore(segments, damaged)
	return nil
}

// restore adds segments to what came meanwhile, and gives each sketch its place.
func (s *Shapes) restore(segments []segment, damaged []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range segments {
		if s.keeper.cleared {
			s.deleted[one.number] = true
			continue
		}
		if !one.Since.IsZero() && one.Since.Before(s.since) {
			s.since = one.Since
		}
		for i := range one.Events {
			s.restoreOne(&one.Events[i])
		}
	}
	for _, number := range damaged {
		s.deleted[number] = true
	}
	s.keeper.loaded = true
	for _, e := range s.events {
		if e.slot < 0 {
			s.place(e)
		}
	}
}

func (s *Shapes) restoreOne(r *sketchRecord) {
	k := key{r.Source, r.Type, r.Name}
	e := s.events[k]
	fresh := e == nil
	if fresh {
		e = &sketch{key: k, slot: -1}
		if len(s.events) >= maxEvents || !(room{&s.bytes}).take(e, eventBytes+len(k.source)+len(k.name)) {
			s.others += r.Calls
			return
		}
		s.insert(e)
	}
	e.merge(room{&s.bytes}, r)
	if r.Slot < 0 || r.Slot >= maxEvents || e.slot >= 0 {
		return
	}
	for len(s.slots) <= r.Slot {
		s.slots = append(s.slots, nil)
	}
	if s.slots[r.Slot] == nil {
		s.slots[r.Slot], e.slot = e, r.Slot
	}
}

// save writes the segments in which something has changed.
func (s *Shapes) save(ctx context.Context) error {
	var errs []error
	for _, number := range s.changed() {
		one, found := s.segment(number)
		name := statePrefix + "." + strconv.Itoa(number)
		var err error
		if len(one.Events) == 0 {
			err = s.keeper.store.Delete(ctx, name)
		} else if encoded, failed := encode(one); failed != nil {
			err = failed
		} else {
			err = s.keeper.store.Put(ctx, name, encoded)
		}
		if err != nil {
			s.notSaved(number, found)
			errs = append(errs, fmt.Errorf("mockserver: state %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// changed returns the segments in which something has changed since they were written.
func (s *Shapes) changed() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers := maps.Clone(s.deleted)
	for slot, e := range s.slots {
		if e != nil && e.changed {
			numbers[slot/segmentEvents] = true
		}
	}
	return slices.Sorted(maps.Keys(numbers))
}

// segment copies a segment to be written, with the sketches of which that is so.
func (s *Shapes) segment(number int) (segment, []*sketch) {
	one := segment{Version: recordVersion}
	var found []*sketch
	for place := range segmentEvents {
		slot := number*segmentEvents + place
		s.mu.Lock() // for each anew, so that no request waits for all
		if place == 0 {
			delete(s.deleted, number) // what is removed from now on is for the next time
		}
		one.Since = s.since.UTC()
		if slot < len(s.slots) && s.slots[slot] != nil {
			e := s.slots[slot]
			e.changed = false
			one.Events = append(one.Events, e.record())
			found = append(found, e)
		}
		s.mu.Unlock()
	}
	return one, found
}

// notSaved has a segment written again.
func (s *Shapes) notSaved(number int, found []*sketch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted[number] = true
	for _, e := range found {
		e.changed = true
	}
}

func encode(one segment) ([]byte, error) {
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if err := json.NewEncoder(w).Encode(one); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

func decode(encoded []byte) (one segment, err error) {
	r, err := gzip.NewReader(bytes.NewReader(encoded))
	if err != nil {
		return one, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxSegment))
	if err != nil {
		return one, err
	}
	if err := json.Unmarshal(plain, &one); err != nil {
		return one, err
	}
	if one.Version != recordVersion {
		return one, fmt.Errorf("it has version %d, and this program knows %d", one.Version, recordVersion)
	}
	return one, nil
}
