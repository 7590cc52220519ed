package text

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Redact returns a name for a write key that does not give it away: its first
// characters and a hash that tells it from others.
func Redact(writeKey string) string {
	sum := sha256.Sum256([]byte(writeKey))
	shown := min(len(writeKey)/3, 4)
	return strings.ToValidUTF8(writeKey[:shown], "") + "…" + hex.EncodeToString(sum[:4])
}
