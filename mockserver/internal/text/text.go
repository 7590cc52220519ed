package text

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Cut truncates a string to n characters and adds an ellipsis.
func Cut(n int, s string) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// CutBytes truncates a string to at most n bytes and adds an ellipsis.
func CutBytes(n int, s string) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// JSON encodes v without escaping characters for HTML. If indent is empty, the result is one line. The
// result is nil if v cannot be encoded.
func JSON(v any, indent string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if encoder.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ParseJSON decodes one value. It refuses unknown fields of structs. Numbers in values of type any become a
// json.Number.
func ParseJSON(data []byte, v any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	end := decoder.InputOffset()
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("unexpected data after the value at byte %d", end)
	}
	return nil
}

// GoString returns a Go string literal, raw if possible.
func GoString(s string) string {
	if strconv.CanBackquote(strings.ReplaceAll(s, "\n", "")) {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}

// Quote truncates s to n bytes and quotes it. Errors use it for input.
func Quote(n int, s string) string { return strconv.Quote(CutBytes(n, s)) }

// MaxRepeated, MaxField and MaxProblem limit the length of errors that contain input, in bytes. An
// error contains at most MaxRepeated bytes of input. In a webhook.FieldError, which also contains
// other words, the field has at most MaxField bytes and the problem at most MaxProblem.
const (
	MaxRepeated = 200
	MaxField    = 80
	MaxProblem  = 160
)

// GroupDigits formats a number with separators, such as 1,234,567.
func GroupDigits[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Plural formats a number with a noun, such as 1 call or 2 calls.
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return GroupDigits(n) + " " + many
}

// Alternatives joins words with commas and a final "or".
func Alternatives(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Span formats a duration, such as 40 seconds, 3 days or 2 months.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	for _, unit := range []struct {
		from, of time.Duration // minimum duration, and size of the unit
		name     string
	}{
		{2 * 365 * day, 365 * day, "year"}, {60 * day, 30 * day, "month"}, {21 * day, 7 * day, "week"}, {day, day, "day"},
		{time.Hour, time.Hour, "hour"}, {time.Minute, time.Minute, "minute"}, {time.Second, time.Second, "second"},
	} {
		if d >= unit.from {
			return Plural(int64(d/unit.of), unit.name, unit.name+"s")
		}
	}
	return "less than a second"
}

// CommonPrefix returns the length of the longest common prefix of a and b in bytes.
func CommonPrefix[T string | []byte](a, b T) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// ContainsFold reports whether text contains part, ignoring the case of ASCII letters. It does not
// search for both cases with bytes.IndexByte, because that would take quadratic time for hostile
// input.
func ContainsFold(text, part []byte) bool {
	first := lowerASCII(part[0])
	for i := 0; i+len(part) <= len(text); i++ {
		if lowerASCII(text[i]) == first && equalFoldASCII(text[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func equalFoldASCII(a, b []byte) bool {
	for i := range a {
		if lowerASCII(a[i]) != lowerASCII(b[i]) {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// Redact returns the first characters and a hash of a write key.
func Redact(writeKey string) string {
	sum := sha256.Sum256([]byte(writeKey))
	shown := min(len(writeKey)/3, 4)
	return strings.ToValidUTF8(writeKey[:shown], "") + "…" + hex.EncodeToString(sum[:4])
}

const digestAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

var digestEncoding = base32.NewEncoding(digestAlphabet).WithPadding(base32.NoPadding)

// DigestLen is the length of a digest in characters.
const DigestLen = 16

// Digest returns a short hash of the parts, in lower-case letters and digits. It is part of state keys
// and messageIds. Different lists of parts have different digests.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return digestEncoding.EncodeToString(h.Sum(nil))[:DigestLen]
}

// IsDigest reports whether s has the format of a digest.
func IsDigest(s string) bool { return len(s) == DigestLen && strings.Trim(s, digestAlphabet) == "" }
