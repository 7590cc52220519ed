package mockserver

import (
	"fmt"
	"time"
)

// timeLayouts are the forms in which senders write a time, the commonest first.
// The fraction of a second may have any number of digits, also where the layout
// has none. A time without a zone is UTC.
var timeLayouts = []string{
	time.RFC3339,
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00",
	"2006-01-02 15:04:05Z07:00",
	"2006-01-02 15:04:05 Z0700",
	"2006-01-02 15:04:05Z0700",
	"2006-01-02 15:04:05",
	"2006-01-02T15",
	"2006-01-02",
}

// parseTime reads an ISO 8601 time leniently, as senders of many languages write
// it. Years outside 0 to 9999, which could not be written again, are refused.
func parseTime(s string) (time.Time, error) {
	for _, layout := range timeLayouts {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		t = t.UTC()
		if t.Year() < 0 || t.Year() > 9999 {
			return time.Time{}, fmt.Errorf("the year of %.40q is out of range", s)
		}
		return t, nil
	}
	return time.Time{}, fmt.Errorf("%.40q is not an ISO 8601 time such as 2026-01-31T12:00:00.000Z", s)
}

// appendTime writes a time as the collector stores it: UTC, milliseconds, Z.
func appendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
}

// correctClock returns when a call happened by the collector's clock: what the
// sender's clock was off when it sent, it was off when the call happened. A
// sender that does not tell both times is believed.
func correctClock(received, sent, original time.Time) time.Time {
	switch {
	case original.IsZero():
		return received
	case sent.IsZero():
		return original
	}
	corrected := received.Add(-sent.Sub(original))
	if corrected.Year() < 0 || corrected.Year() > 9999 {
		return received
	}
	return corrected
}
