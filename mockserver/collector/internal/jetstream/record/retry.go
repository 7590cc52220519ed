package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MaxSkew is how far the clocks of collectors that share a cluster may be apart,
	// and how far a clock may step back unnoticed.
	MaxSkew     = 10 * time.Second
	retryFormat = 2
)

// A Retry is a message of RETRY: what is to be tried again, and when.
type Retry struct {
	Ref     Ref
	Attempt int
	Places  []int // which calls; nil: all of the part
	Notes   []string
	From    uint64    // the message of OUTCOMES that asked for it; 0 for a replay
	Decided time.Time // when it was decided that it is due then
	Due     time.Time
}

// IsAhead reports whether a retry was decided after now: the clock has stepped back
// since.
func (r *Retry) IsAhead(now time.Time) bool { return IsAhead(r.Decided.UnixNano(), now) }

// IsAhead reports whether a time, in nanoseconds, lies so far ahead of now that the
// clock must have stepped back.
func IsAhead(at int64, now time.Time) bool { return at-now.UnixNano() > int64(MaxSkew) }

// DueFrom returns when a retry is due, seen from now. A retry waits no longer than the
// time for which it was put off: where the clock has stepped back since it is due now.
// The result is on the monotonic clock, so that later steps do not move r.
func (r *Retry) DueFrom(now time.Time) time.Time {
	if r.IsAhead(now) {
		return now
	}
	return now.Add(r.Due.Sub(now))
}

// Encode is what DecodeRetry reads.
func (r *Retry) Encode() []byte {
	b := []byte{retryFormat}
	b = binary.AppendUvarint(b, r.Ref.Number())
	b = binary.AppendUvarint(b, uint64(r.Attempt))
	b = binary.AppendUvarint(b, r.From)
	b = binary.AppendVarint(b, r.Decided.UnixNano())
	b = binary.AppendVarint(b, r.Due.UnixNano())
	b = binary.AppendUvarint(b, uint64(len(r.Places)))
	b = appendPlaces(b, r.Places)
	return AppendText(b, strings.Join(r.Notes, ","))
}

// DecodeRetry reads a message of RETRY.
func DecodeRetry(data []byte) (*Retry, error) {
	if len(data) == 0 || data[0] != retryFormat {
		return nil, fmt.Errorf("journal: a stored retry has format %.1x, not %d", data, retryFormat)
	}
	d := Decoder{Rest: data[1:]}
	r := &Retry{Ref: RefOf(d.Uint()), Attempt: d.Int(1 << 30), From: d.Uint(), Decided: d.time(), Due: d.time()}
	n := d.Int(PartCalls)
	if n > 0 {
		r.Places = d.places(n)
	}
	r.Notes = d.notes(n)
	if d.Failed || len(d.Rest) > 0 {
		return nil, errors.New("journal: a stored retry is damaged")
	}
	return r, nil
}
