package search

import (
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// ReadTime parses a time as [fields.ParseTime] does, or an age. An age counts back from now.
func ReadTime(value string, now time.Time) (time.Time, error) {
	if age, ok := readAge(value); ok {
		return now.Add(-age), nil
	}
	return fields.ParseTime(value)
}

// units contains the units that time.ParseDuration does not accept.
var units = map[byte]time.Duration{'d': 24 * time.Hour, 'w': 7 * 24 * time.Hour}

// maxAge is the maximum age in a query.
const maxAge = 10 * 365 * 24 * time.Hour

// readAge parses an age such as 90s, 1h30m or 7d.
func readAge(value string) (time.Duration, bool) {
	if age, err := time.ParseDuration(value); err == nil {
		return age, age >= 0 && age <= maxAge
	}
	if len(value) < 2 || len(value) > 8 || strings.TrimLeft(value[:len(value)-1], "0123456789") != "" {
		return 0, false
	}
	unit := units[value[len(value)-1]]
	n, err := strconv.ParseInt(value[:len(value)-1], 10, 64)
	if unit == 0 || err != nil || n > int64(maxAge/unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
