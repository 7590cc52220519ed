package ingest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// WriteKeys contains the write keys in the header and the query of a request.
type WriteKeys struct {
	Basic string // user name of Basic auth
	Other string // used only if the body contains no key, because a bearer token may be for a gateway
}

// WriteKeysOf returns the write keys in the header or the query of a request. The query is used
// by navigator.sendBeacon, which cannot set headers. In Basic auth, the colon after the user name
// and the padding may be missing.
func WriteKeysOf(r *http.Request) WriteKeys {
	keys := headerKeys(r)
	if keys == (WriteKeys{}) && r.URL.RawQuery != "" {
		keys.Other = r.URL.Query().Get("writeKey")
	}
	return keys
}

func headerKeys(r *http.Request) WriteKeys {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch strings.ToLower(scheme) {
	case "basic":
		return WriteKeys{Basic: decodeKey(strings.TrimSpace(value))}
	case "bearer":
		return WriteKeys{Other: strings.TrimSpace(value)}
	}
	return WriteKeys{}
}

// decodeKey decodes the user name of Basic auth.
func decodeKey(encoded string) string {
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding} {
		if b, err := enc.DecodeString(encoded); err == nil {
			user, _, _ := strings.Cut(string(b), ":")
			return user
		}
	}
	return ""
}

// unknownKey returns the refusal of a request with an unknown write key.
func unknownKey(key string) *requestError {
	if key == "" {
		return refuse(http.StatusUnauthorized, tracking.CodeUnknownWriteKey, "the request has no write key; send it as the user of Basic auth")
	}
	return refuse(http.StatusUnauthorized, tracking.CodeUnknownWriteKey, "no source has the write key %s", text.Redact(key))
}

// A SourceTable contains the current sources. It is immutable: changed settings create a new
// table.
type SourceTable struct {
	sources     []tracking.Source
	sums        [][sha256.Size]byte // hashes of the write keys
	rules       []*redact.Rules     // redaction of each source, or nil
	anyWriteKey bool                // an unknown write key creates a source
}

// NewSourceTable returns a table of sources. With anyWriteKey, every write key identifies a
// source. redactKey is the key of hashes of redacted values.
func NewSourceTable(sources []tracking.Source, anyWriteKey bool, redactKey []byte) *SourceTable {
	t := &SourceTable{sources: sources, anyWriteKey: anyWriteKey, sums: make([][sha256.Size]byte, len(sources)), rules: make([]*redact.Rules, len(sources))}
	for i := range sources {
		t.rules[i] = sources[i].Redact.Rules(redactKey)
		t.sums[i] = sha256.Sum256([]byte(sources[i].WriteKey))
	}
	return t
}

// SourceOf returns the name of the source with a write key.
func (t *SourceTable) SourceOf(writeKey string) (name string, known bool) {
	// Compare all hashes, so that the duration does not depend on the key.
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

// nameOf returns the name of the source that an unknown write key creates. It is the key itself,
// unless the key is not a valid name or is the name of another source. The name may reveal the
// key, because any key is accepted.
func (t *SourceTable) nameOf(writeKey string) string {
	if settings.CheckName(writeKey) != nil || slices.ContainsFunc(t.sources, settings.SourceNamed(writeKey)) {
		return text.Redact(writeKey)
	}
	return writeKey
}

// hasWriteKey reports whether text is the write key of a source.
func (t *SourceTable) hasWriteKey(text string) bool {
	return slices.ContainsFunc(t.sources, func(s tracking.Source) bool { return s.WriteKey == text })
}

// RulesOf returns the redaction of a source, or nil.
func (t *SourceTable) RulesOf(source string) *redact.Rules {
	if i := slices.IndexFunc(t.sources, settings.SourceNamed(source)); i >= 0 {
		return t.rules[i]
	}
	return nil
}

// StoredID returns the function that converts a user ID to the ID in the stored calls of a source.
func (t *SourceTable) StoredID(source string) func(id string) string {
	if rules := t.RulesOf(source); rules.Hashes("userId") {
		return rules.Text
	}
	return func(id string) string { return id }
}

// redacts reports whether any source has a redaction.
func (t *SourceTable) redacts() bool {
	return slices.ContainsFunc(t.rules, func(r *redact.Rules) bool { return r != nil })
}

// callsPerSecond returns the rate limit in a source's settings, or 0.
func (t *SourceTable) callsPerSecond(source string) int {
	if i := slices.IndexFunc(t.sources, settings.SourceNamed(source)); i >= 0 {
		return t.sources[i].CallsPerSecond
	}
	return 0
}
