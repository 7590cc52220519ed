package mockserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"slices"
	"strings"
)

// sourceOf returns the name of the source with a write key.
func (c *Collector) sourceOf(writeKey string) (name string, known bool) {
	// Hashes have one length, and comparing all of them takes one time, whichever matches.
	sum := sha256.Sum256([]byte(writeKey))
	for _, s := range c.settings.Load().sources {
		if subtle.ConstantTimeCompare(s.sum[:], sum[:]) == 1 {
			name, known = s.name, true
		}
	}
	if !known && c.config.AnyWriteKey && writeKey != "" {
		return c.nameOf(writeKey), true
	}
	return name, known
}

// nameOf names the source of a write key that is nobody's secret, since any is taken:
// by the key itself, unless that cannot be a name or is another source's.
func (c *Collector) nameOf(writeKey string) string {
	if checkName(writeKey) != nil || slices.ContainsFunc(c.Settings().Sources, sourceNamed(writeKey)) {
		return redact(writeKey)
	}
	return writeKey
}

// rateLimit returns how many calls a second a source may send; 0 is no limit.
func (c *Collector) rateLimit(source string) int {
	for _, s := range c.settings.Load().Sources {
		if s.Name == source && s.CallsPerSecond > 0 {
			return s.CallsPerSecond
		}
	}
	return c.limits.CallsPerSecond
}

// knownSource is a source as requests look it up.
type knownSource struct {
	name string
	sum  [sha256.Size]byte // of the write key
}

// decodeKey reads the write key from Basic auth that lacks its colon.
func decodeKey(encoded string) string {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if b, err := enc.DecodeString(encoded); err == nil {
			user, _, _ := strings.Cut(string(b), ":")
			return user
		}
	}
	return ""
}
