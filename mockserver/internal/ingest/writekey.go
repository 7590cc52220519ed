package ingest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// WriteKeys are those that a request came with, outside its body.
type WriteKeys struct {
	Basic string // the user of Basic auth
	Other string // counts where the body has none: a bearer token may be meant for a gateway before us
}

// WriteKeysOf returns the write keys of a request's header, or else of its query: what
// browsers send by navigator.sendBeacon has no header of its own. The colon behind
// the user of Basic auth may be missing.
func WriteKeysOf(r *http.Request) WriteKeys {
	keys := headerKeys(r)
	if keys == (WriteKeys{}) && r.URL.RawQuery != "" {
		keys.Other = r.URL.Query().Get("writeKey")
	}
	return keys
}

func headerKeys(r *http.Request) WriteKeys {
	if user, _, ok := r.BasicAuth(); ok {
		return WriteKeys{Basic: user}
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return WriteKeys{Basic: decodeKey(strings.TrimSpace(value))}
	case "bearer":
		return WriteKeys{Other: strings.TrimSpace(value)}
	}
	return WriteKeys{}
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

// unknownKey refuses a request whose write key is that of no source.
func unknownKey(key string) *requestError {
	if key == "" {
		return refuse(http.StatusUnauthorized, tracking.CodeUnknownWriteKey, "the request has no write key; send it as the user of Basic auth")
	}
	return refuse(http.StatusUnauthorized, tracking.CodeUnknownWriteKey, "no source has the write key %s", text.Redact(key))
}

// A SourceTable holds the sources that apply, for requests to look up. It does not
// change: other settings make another table.
type SourceTable struct {
	sources     []tracking.Source
	sums        [][sha256.Size]byte // of their write keys
	anyWriteKey bool                // a write key that is unknown makes a source
}

// NewSourceTable returns a table of sources. With anyWriteKey, a write key that none of
// them has names a source as well.
func NewSourceTable(sources []tracking.Source, anyWriteKey bool) *SourceTable {
	t := &SourceTable{sources: sources, anyWriteKey: anyWriteKey, sums: make([][sha256.Size]byte, len(sources))}
	for i := range sources {
		t.sums[i] = sha256.Sum256([]byte(sources[i].WriteKey))
	}
	return t
}

// SourceOf returns the name of the source with a write key.
func (t *SourceTable) SourceOf(writeKey string) (name string, known bool) {
	// Hashes have one length, and comparing all of them takes one time, whichever matches.
	sum := sha256.Sum256([]byte(writeKey))
	for i := range t.sums {
		if subtle.ConstantTimeCompare(t.sums[i][:], sum[:]) == 1 {
			name, known = t.sources[i].Name, true
		}
	}
	if !known && t.anyWriteKey && writeKey != "" {
		return t.nameOf(writeKey), true
	}
	return name, known
}

// nameOf names the source of a write key that is nobody's secret, since any is taken:
// by the key itself, unless that cannot be a name or is another source's.
func (t *SourceTable) nameOf(writeKey string) string {
	if settings.CheckName(writeKey) != nil || slices.ContainsFunc(t.sources, func(s tracking.Source) bool { return s.Name == writeKey }) {
		return text.Redact(writeKey)
	}
	return writeKey
}

// hasWriteKey reports whether a text is the write key of a source.
func (t *SourceTable) hasWriteKey(text string) bool {
	return slices.ContainsFunc(t.sources, func(s tracking.Source) bool { return s.WriteKey == text })
}

// callsPerSecond returns how many calls a second a source may send by its own
// settings; 0 where these do not say.
func (t *SourceTable) callsPerSecond(source string) int {
	for i := range t.sources {
		if t.sources[i].Name == source {
			return t.sources[i].CallsPerSecond
		}
	}
	return 0
}
