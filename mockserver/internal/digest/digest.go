package digest

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// lowercase is base32 of letters and digits that keys and messageIds can hold.
var lowercase = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Len is how many characters a digest has.
const Len = 16

// Of returns letters and digits that stand for the parts.
func Of(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return lowercase.EncodeToString(h.Sum(nil))[:Len]
}

// Valid reports whether s can be a digest, and so a part of a key.
func Valid(s string) bool {
	return len(s) == Len && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
