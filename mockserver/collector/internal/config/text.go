package config

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// sizeUnits are the units of a Size, in bytes.
var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// UnmarshalText parses a number with an optional unit, such as 8GB, 8 GiB or 8000000000.
func (s *Size) UnmarshalText(text []byte) error {
	end := strings.LastIndexAny(string(text), "0123456789.") + 1
	n, err := strconv.ParseFloat(string(text[:end]), 64)
	unit, known := sizeUnits[strings.ToLower(strings.TrimSpace(string(text[end:])))]
	if bytes := n * unit; err == nil && known && bytes >= 1 && bytes < math.MaxInt64 {
		*s = Size(bytes)
		return nil
	}
	return errors.New("use a size such as 512KB, 8GB or 8GiB")
}

// A positiveDuration is a time.Duration above zero.
type positiveDuration time.Duration

// UnmarshalText parses a duration such as 90s or 24h.
func (d *positiveDuration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return errors.New("use a duration such as 90s, 15m or 24h")
	}
	*d = positiveDuration(v)
	return nil
}

// UnmarshalText parses "always" or a duration.
func (s *Sync) UnmarshalText(text []byte) error {
	if string(text) == "always" {
		*s = 0
		return nil
	}
	v, err := time.ParseDuration(string(text))
	if err != nil || v < 100*time.Millisecond || v > 10*time.Minute {
		return errors.New("use always, or the interval between syncs, such as 1s")
	}
	*s = Sync(v)
	return nil
}

// UnmarshalText checks that text is a JSON object.
func (o *JSONObject) UnmarshalText(text []byte) error {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) != nil || object == nil {
		return errors.New(`use a JSON object in quotes, such as '{"backoffConfig":{"maxRetryCount":3}}'`)
	}
	*o = text
	return nil
}
