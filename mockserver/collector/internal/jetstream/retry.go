package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// maxSkew is how far the clocks of collectors that share a cluster may be apart,
	// and how far a clock may step back unnoticed.
	maxSkew = 10 * time.Second
	// retryFormat: 1 does not say when a retry was decided.
	retryFormat = 2
)

// A retryRecord is a message of RETRY: what is to be tried again, and when.
type retryRecord struct {
	ref     callsRef
	attempt int
	places  []int // which calls; nil: all of the part
	notes   []string
	from    uint64    // the message of OUTCOMES that asked for it; 0 for a replay
	decided time.Time // when it was decided that it is due then
	due     time.Time
}

// isAhead reports whether a retry was decided after now: the clock has stepped back
// since.
func (r *retryRecord) isAhead(now time.Time) bool { return isAhead(r.decided.UnixNano(), now) }

// isAhead reports whether a time, in nanoseconds, lies so far ahead of now that the
// clock must have stepped back.
func isAhead(at int64, now time.Time) bool { return at-now.UnixNano() > int64(maxSkew) }

// dueFrom returns when a retry is due, seen from now. A retry waits no longer than the
// time for which it was put off: where the clock has stepped back since it is due now.
// The result is on the monotonic clock, so that later steps do not move r.
func (r *retryRecord) dueFrom(now time.Time) time.Time {
	if r.isAhead(now) {
		return now
	}
	return now.Add(r.due.Sub(now))
}

// encode is what decodeRetry reads.
func (r *retryRecord) encode() []byte {
	b := []byte{retryFormat}
	b = binary.AppendUvarint(b, r.ref.number())
	b = binary.AppendUvarint(b, uint64(r.attempt))
	b = binary.AppendUvarint(b, r.from)
	b = binary.AppendVarint(b, r.decided.UnixNano())
	b = binary.AppendVarint(b, r.due.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(r.places)))
	b = appendPlaces(b, r.places)
	return appendText(b, strings.Join(r.notes, ","))
}

func decodeRetry(data []byte) (*retryRecord, error) {
	if len(data) == 0 || data[0] < 1 || data[0] > retryFormat {
		return nil, fmt.Errorf("journal: a stored retry has format %.1x, not 1 to %d", data, retryFormat)
	}
	d := decoder{rest: data[1:]}
	r := &retryRecord{ref: refOf(d.uint()), attempt: d.int(1 << 30), from: d.uint(), decided: time.Unix(0, 0)}
	if data[0] > 1 {
		r.decided = d.time()
	}
	r.due = d.time()
	n := d.int(partCalls)
	if n > 0 {
		r.places = d.places(n)
	}
	r.notes = d.notes(n)
	if d.failed || len(d.rest) > 0 {
		return nil, errors.New("journal: a stored retry is damaged")
	}
	return r, nil
}
