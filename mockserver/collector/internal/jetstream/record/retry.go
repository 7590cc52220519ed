package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// MaxSkew is the maximum clock difference between the collectors of a cluster. Smaller
	// backward steps of a clock are ignored.
	MaxSkew     = 10 * time.Second
	retryFormat = 2
)

// A Retry is a message of RETRY.
type Retry struct {
	Ref     Ref
	Attempt int
	Places  []int // positions of the calls to retry; nil for all calls of the part
	Notes   []string
	From    uint64    // sequence number of the retry's message in OUTCOMES; 0 for a replay
	Decided time.Time // when the retry was scheduled
	Due     time.Time
}

// IsAhead reports whether the clock has stepped back since the retry was scheduled.
func (r *Retry) IsAhead(now time.Time) bool { return IsAhead(r.Decided.UnixNano(), now) }

// IsAhead reports whether a time in Unix nanoseconds is more than MaxSkew after now. The clock has
// then stepped back.
func IsAhead(at int64, now time.Time) bool { return at-now.UnixNano() > int64(MaxSkew) }

// DueFrom returns when a retry is due. If the clock has stepped back since the retry was scheduled,
// the retry is due now. The result has a monotonic clock reading, so later steps do not change it.
func (r *Retry) DueFrom(now time.Time) time.Time {
	if r.IsAhead(now) {
		return now
	}
	return now.Add(r.Due.Sub(now))
}

// Encode returns the retry in its storage format.
func (r *Retry) Encode() []byte {
	b := AppendNumbers([]byte{retryFormat}, r.Ref.Number(), uint64(r.Attempt), r.From)
	b = binary.AppendVarint(b, r.Decided.UnixNano())
	b = binary.AppendVarint(b, r.Due.UnixNano())
	b = appendPlaces(AppendNumbers(b, uint64(len(r.Places))), r.Places)
	return AppendText(b, strings.Join(r.Notes, ","))
}

// DecodeRetry decodes a message of RETRY.
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
		return nil, errors.New("journal: a stored retry is corrupt")
	}
	return r, nil
}
