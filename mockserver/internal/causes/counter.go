package causes

import "time"

const (
	minutes  = 61 // the last one goes on
	quarters = 97
)

// Counts are how often something happened.
type Counts struct {
	Hour  int64 `json:"hour"`  // in the last one, to a minute
	Day   int64 `json:"day"`   // in the last 24 hours, to a quarter of an hour
	Total int64 `json:"total"` // since the group began
}

// A counter counts what happens. It is told times that hardly go back.
type counter struct {
	minute, quarter int64 // the newest of each, since 1970
	byMinute        [minutes]uint32
	byQuarter       [quarters]uint32
	total           int64
}

func (c *counter) add(at time.Time, n int) {
	c.total += int64(n)
	count(c.byMinute[:], &c.minute, at.Unix()/60, n)
	count(c.byQuarter[:], &c.quarter, at.Unix()/900, n)
}

// count adds to a slot of a ring whose newest one is known.
func count(ring []uint32, newest *int64, at int64, n int) {
	advance(ring, newest, at)
	if *newest-at < int64(len(ring)) {
		ring[slotIndex(ring, at)] += uint32(n)
	}
}

// place returns where a ring has a slot.
func slotIndex(ring []uint32, at int64) int { return int(uint64(at) % uint64(len(ring))) }

// pass empties the slots of a ring up to a newer one.
func advance(ring []uint32, newest *int64, to int64) {
	if to-*newest >= int64(len(ring)) {
		clear(ring)
		*newest = to
	}
	for *newest < to {
		*newest++
		ring[slotIndex(ring, *newest)] = 0
	}
}

func (c *counter) counts(now time.Time) (n Counts) {
	advance(c.byMinute[:], &c.minute, now.Unix()/60)
	advance(c.byQuarter[:], &c.quarter, now.Unix()/900)
	for _, in := range c.byMinute {
		n.Hour += int64(in)
	}
	for _, in := range c.byQuarter {
		n.Day += int64(in)
	}
	n.Total = c.total
	return n
}
