package stats

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// Start restores the groups from a store in the background, and saves changes until Stop
// is called. isCurrent reports whether a destination exists and was attached before a time. Failures for
// which it returns false are not restored.
func (c *Causes) Start(store state.Store, log *slog.Logger, isCurrent func(destination string, at time.Time) bool) {
	c.persister.Start(store, log, causeRecords{c, isCurrent})
}

// Stop saves all changes. It does nothing if Start was not called.
func (c *Causes) Stop() { c.persister.Stop() }

// causesVersion is the version of the stored format.
const causesVersion = 1

// A causeRecord is a stored group, or the counts of evicted groups.
type causeRecord struct {
	state.Header
	Since         time.Time    `json:"since"`
	Group         *groupRecord `json:"group,omitempty"`
	OthersFailed  Others       `json:"othersFailed,omitzero"`
	OthersRefused Others       `json:"othersRefused,omitzero"`
}

// A groupRecord is a stored group. It omits sender addresses, messages and responses,
// because these may contain personal data.
type groupRecord struct {
	Key
	First    time.Time     `json:"first"`
	Last     time.Time     `json:"last"`
	Attempts counterRecord `json:"attempts,omitzero"`
	Calls    counterRecord `json:"calls,omitzero"`
	Status   int           `json:"status,omitempty"`
	Newest   []Call        `json:"newest,omitempty"`
	Senders  []Sender      `json:"senders,omitempty"`
	Others   int64         `json:"otherSenders,omitempty"`
}

// A counterRecord is a stored counter: the slots that are not empty, oldest first, as
// pairs of slot number and count.
type counterRecord struct {
	Minutes  [][2]int64 `json:"minutes,omitempty"`
	Quarters [][2]int64 `json:"quarters,omitempty"`
	Total    int64      `json:"total"`
}

// causeRecords implements state.Statistics. The keys are group IDs.
type causeRecords struct {
	*Causes
	isCurrent func(destination string, at time.Time) bool
}

// Restore implements state.Statistics. If a record is unreadable, all counts start again:
// otherwise Report.Since would be wrong for the lost group.
func (rs causeRecords) Restore(stored map[string]causeRecord, damaged bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		r := stored[key]
		isDeleted := r.Group != nil && r.Group.Kind == Failed && (rs.persister.IsDeleted(r.Group.Destination) || !rs.isCurrent(r.Group.Destination, r.Group.Last))
		if isDeleted || damaged {
			rs.persister.MarkChanged(key)
			continue
		}
		if r.Since.Before(rs.since) {
			rs.since = r.Since
		}
		rs.failed.others.add(r.OthersFailed)
		rs.refused.others.add(r.OthersRefused)
		if r.Group != nil {
			rs.group(rs.groupsOf(r.Group.Kind), r.Group.Key).merge(r.Group)
		}
	}
}

func (c *Causes) groupsOf(kind Kind) *groups {
	if kind == Failed {
		return &c.failed
	}
	return &c.refused
}

// Changed implements state.Statistics.
func (rs causeRecords) Changed() (keys []string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, gs := range []*groups{&rs.failed, &rs.refused} {
		for _, g := range gs.byKey {
			if g.changed {
				keys = append(keys, g.id)
			}
		}
	}
	return keys
}

// Record implements state.Statistics.
func (rs causeRecords) Record(key string) (causeRecord, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := causeRecord{Header: state.Header{Version: causesVersion}, Since: rs.since.UTC()}
	if key == othersKey {
		r.OthersFailed, r.OthersRefused = rs.failed.others, rs.refused.others
		return r, true
	}
	for _, gs := range []*groups{&rs.failed, &rs.refused} {
		for _, g := range gs.byKey {
			if g.id == key {
				g.changed = false
				r.Group = g.record()
				return r, true
			}
		}
	}
	return r, false
}

func (o *Others) add(other Others) {
	o.Groups += other.Groups
	o.Calls += other.Calls
}

// record returns the stored form of a group.
func (g *group) record() *groupRecord {
	r := &groupRecord{
		Key: g.Key, First: g.first.UTC(), Last: g.last.UTC(), Attempts: g.attempts.record(), Calls: g.calls.record(),
		Status: g.sample.Status, Newest: slices.Clone(g.newest), Others: g.senders.others,
	}
	var known senders
	for _, s := range g.senders.list {
		if s.Source+s.UserAgent+s.Library == "" {
			r.Others += s.Count
			continue
		}
		known.add(s.Last, s.Source, tracking.Sender{UserAgent: s.UserAgent, Library: s.Library}, int(s.Count))
	}
	r.Senders = known.list
	return r
}

// merge adds a stored group.
func (g *group) merge(r *groupRecord) {
	if g.last.IsZero() {
		g.sample = Sample{Message: r.Cause, Status: r.Status}
	}
	changed := g.changed
	g.seen(r.First)
	g.seen(r.Last)
	g.changed = changed
	g.attempts.merge(r.Attempts)
	g.calls.merge(r.Calls)
	since := g.newest
	g.newest = nil
	for _, c := range append(slices.Clone(r.Newest), since...) {
		g.addCall(c)
	}
	for _, s := range r.Senders {
		g.senders.add(s.Last, s.Source, s.Sender, int(s.Count))
	}
	g.senders.others += r.Others
}

func (c *counter) record() counterRecord {
	return counterRecord{slots(c.byMinute[:], c.minute), slots(c.byQuarter[:], c.quarter), c.total}
}

// slots returns the slots that are not empty, oldest first.
func slots(ring []uint32, newest int64) (found [][2]int64) {
	for at := newest - int64(len(ring)) + 1; at <= newest; at++ {
		if n := ring[slotIndex(ring, at)]; n > 0 {
			found = append(found, [2]int64{at, int64(n)})
		}
	}
	return found
}

func (c *counter) merge(r counterRecord) {
	c.total += r.Total
	for _, s := range r.Minutes {
		count(c.byMinute[:], &c.minute, s[0], int(s[1]))
	}
	for _, s := range r.Quarters {
		count(c.byQuarter[:], &c.quarter, s[0], int(s[1]))
	}
}
