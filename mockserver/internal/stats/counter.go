package stats

import "time"

const (
	minutes  = 61 // the current minute and the 60 before it
	quarters = 97
)

// Counts contains the number of events in different periods.
type Counts struct {
	Hour  int64 `json:"hour"`  // events in the last hour, accurate to a minute
	Day   int64 `json:"day"`   // events in the last 24 hours, accurate to 15 minutes
	Total int64 `json:"total"` // events since the group was created
}

// A counter counts events by minute and by quarter of an hour. Times should be roughly in
// order: an event older than all slots is counted only in the total.
type counter struct {
	minute, quarter int64 // numbers of the newest slots, counted from 1970
	byMinute        [minutes]uint32
	byQuarter       [quarters]uint32
	total           int64
}

func (c *counter) add(at time.Time, n int) {
	c.total += int64(n)
	count(c.byMinute[:], &c.minute, at.Unix()/60, n)
	count(c.byQuarter[:], &c.quarter, at.Unix()/900, n)
}

// count adds n to the slot with number at, unless the ring no longer contains the slot.
func count(ring []uint32, newest *int64, at int64, n int) {
	advance(ring, newest, at)
	if *newest-at < int64(len(ring)) {
		ring[slotIndex(ring, at)] += uint32(n)
	}
}

func slotIndex(ring []uint32, at int64) int { return int(uint64(at) % uint64(len(ring))) }

// advance clears the slots between newest and to.
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
