package stats

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// Start restores the counters from a store in the background, and saves changes until Stop
// is called. isCurrent reports whether a destination exists and was attached before a time. Counters for
// which it returns false are not restored.
func (ds *Destinations) Start(store state.Store, log *slog.Logger, isCurrent func(destination string, at time.Time) bool) {
	ds.persister.Start(store, log, destinationRecords{ds, isCurrent})
}

// Stop saves all changes. It does nothing if Start was not called.
func (ds *Destinations) Stop() { ds.persister.Stop() }

// destinationsVersion is the version of the stored format.
const destinationsVersion = 1

// A destinationRecord is a stored destination. It omits responses, because they may contain personal
// data.
type destinationRecord struct {
	state.Header
	Name    string       `json:"name"`
	Since   time.Time    `json:"since"`
	Last    time.Time    `json:"last"`
	Hour    []slotRecord `json:"hour"`
	Day     []slotRecord `json:"day"`
	Failure *Failure     `json:"failure,omitempty"`
}

// A slotRecord is a stored slot. Its JSON names are short because there are many slots.
type slotRecord struct {
	At       int64       `json:"t"`
	Attempts uint32      `json:"n"`
	Failed   uint32      `json:"f,omitempty"`
	Took     [][2]uint32 `json:"d,omitempty"` // buckets that are not empty, with their counts
}

// destinationRecords implements state.Statistics. The keys are digests of destination names.
type destinationRecords struct {
	*Destinations
	isCurrent func(destination string, at time.Time) bool
}

// Restore implements state.Statistics.
func (rs destinationRecords) Restore(stored map[string]destinationRecord, _ bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		r := stored[key]
		if rs.persister.IsDeleted(r.Name) || !rs.isCurrent(r.Name, r.Last) {
			rs.persister.MarkChanged(key)
			continue
		}
		rs.counters(r.Name).merge(&r)
	}
}

// Changed implements state.Statistics.
func (rs destinationRecords) Changed() (keys []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, d := range rs.byName {
		d.mu.Lock()
		if d.changed {
			keys = append(keys, d.key)
		}
		d.mu.Unlock()
	}
	return keys
}

// Record implements state.Statistics.
func (rs destinationRecords) Record(key string) (destinationRecord, bool) {
	rs.mu.Lock()
	var name string
	var d *destination
	for n, of := range rs.byName {
		if of.key == key {
			name, d = n, of
		}
	}
	rs.mu.Unlock()
	if d == nil {
		return destinationRecord{}, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = false
	r := destinationRecord{
		Header: state.Header{Version: destinationsVersion}, Name: name, Since: d.since.UTC(), Last: d.last.UTC(),
		Hour: d.hour.records(), Day: d.day.records(),
	}
	if d.failure != nil {
		failure := *d.failure
		failure.Error = d.plainError
		r.Failure = &failure
	}
	return r, true
}

// merge adds a stored destination.
func (d *destination) merge(r *destinationRecord) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Since.Before(d.since) {
		d.since = r.Since
	}
	d.hour.merge(r.Hour)
	d.day.merge(r.Day)
	if r.Last.After(d.last) {
		d.last = r.Last
	}
	if r.Failure != nil && (d.failure == nil || d.failure.At.Before(r.Failure.At)) {
		d.failure, d.plainError = r.Failure, r.Failure.Error
	}
}

// records returns the stored form of all slots, oldest first.
func (w *window) records() []slotRecord {
	var all []slotRecord
	for _, s := range w.slots {
		if s == nil {
			continue
		}
		r := slotRecord{At: s.at, Attempts: s.attempts, Failed: s.failed}
		for class, n := range s.took {
			if n > 0 {
				r.Took = append(r.Took, [2]uint32{uint32(class), n})
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b slotRecord) int { return cmp.Compare(a.At, b.At) })
	return all
}

// merge adds stored slots.
func (w *window) merge(from []slotRecord) {
	for _, r := range from {
		s := w.at(r.At)
		if s == nil {
			continue
		}
		s.attempts += r.Attempts
		s.failed += r.Failed
		for _, took := range r.Took {
			s.took[min(took[0], classes-1)] += took[1]
		}
	}
}
