package fields

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/wire"
)

// ParseTime parses a time as [wire.ParseTime] does.
func ParseTime[T string | []byte](s T) (time.Time, error) {
	t, ok := wire.ParseTime(string(s))
	if !ok {
		return time.Time{}, fmt.Errorf("%.40q is not an ISO 8601 time such as 2026-01-31T12:00:00.000Z", s)
	}
	return t, nil
}

// TimeLayout is the format of stored times, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// AppendTimeMember appends a field with a time. name is the beginning of the field, up to and
// including the opening quote of its value. For the zero time, it appends nothing.
func AppendTimeMember(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	return append(wire.AppendTime(append(dst, name...), t), '"')
}
