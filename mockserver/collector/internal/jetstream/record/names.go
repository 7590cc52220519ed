package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Names generates the names of streams, subjects and consumers. The prefix separates the
// journals of a cluster.
//
//	c.<source>            accepted calls
//	a.<destination>       attached and detached destinations
//	b.<destination>       replayed calls
//	z                     placeholders for lost messages
//	o                     outcomes
//	o.<destination>       outcomes of a destination with ordered delivery
//	at.<destination>.<n>  scheduled retry n
//	due.<destination>.<n> due retry n
//	f.<destination>.<n>   failed calls
//	m.<destination>.<n>   marks of replayed failed calls
//	t                     attempts
//	s.<key>               internal state
type Names struct{ Prefix string }

// Stream returns the name of a stream.
func (n Names) Stream(kind string) string { return n.Prefix + "-" + kind }

// Subject returns a subject that consists of the prefix and the tokens.
func (n Names) Subject(tokens ...string) string {
	return n.Prefix + "." + strings.Join(tokens, ".")
}

// Split returns the first token after the prefix, and the remaining tokens.
func (n Names) Split(subject string) (kind, rest string) {
	kind, rest, _ = strings.Cut(strings.TrimPrefix(subject, n.Prefix+"."), ".")
	return kind, rest
}

// Consumer returns the name of a destination's consumer. Long names are hashed, because the server
// also uses the name as a file name.
func (n Names) Consumer(destination string) string {
	t := Token(destination)
	if len(t) > 128 {
		sum := sha256.Sum256([]byte(destination))
		return "d=" + hex.EncodeToString(sum[:16])
	}
	return "d-" + t
}

// Kinds of streams.
const (
	StreamCalls    = "CALLS"
	StreamOutcomes = "OUTCOMES"
	StreamRetry    = "RETRY"
	StreamFailed   = "FAILED"
	StreamAttempts = "ATTEMPTS"
	StreamState    = "STATE"
)

// Kinds of buckets.
const (
	BucketSettings = "settings"
	BucketState    = "state"
)

// Bucket returns the name of a bucket's stream, as in the KeyValue API of NATS.
func (n Names) Bucket(kind string) string { return "KV_" + n.Prefix + "-" + kind }

// Key returns the subject of a key in a bucket, as in the KeyValue API of NATS.
func (n Names) Key(kind, key string) string { return "$KV." + n.Prefix + "-" + kind + "." + key }

// CallSubjects returns the subjects for calls of the given sources, or for all calls if there are
// no sources.
func (n Names) CallSubjects(sources []string) []string {
	if len(sources) == 0 {
		return []string{n.Subject(KindCalls, "*")}
	}
	subjects := make([]string, len(sources))
	for i, s := range sources {
		subjects[i] = n.Subject(KindCalls, Token(s))
	}
	return subjects
}

// Token encodes a name as one token of a subject. It keeps letters, digits, - and _, and encodes
// other bytes as =XX.
func Token(name string) string {
	if name == "" {
		return "="
	}
	return string(appendEscaped(make([]byte, 0, len(name)+8), name, '=', IsPlain))
}

// Untoken decodes the result of Token.
func Untoken(t string) (string, error) {
	if t == "=" {
		return "", nil
	}
	name, ok := unescape(t, '=')
	if !ok {
		return "", fmt.Errorf("journal: the subject token %q has an invalid escape", t)
	}
	return name, nil
}

const hexDigits = "0123456789ABCDEF"

// appendEscaped appends a string. Each byte for which isPlain is false becomes a mark and two hexadecimal
// digits.
func appendEscaped(dst []byte, s string, mark byte, isPlain func(byte) bool) []byte {
	for i := range len(s) {
		if c := s[i]; isPlain(c) {
			dst = append(dst, c)
		} else {
			dst = append(dst, mark, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// unescape decodes the result of appendEscaped. It keeps invalid escapes, and ok is then false.
func unescape(s string, mark byte) (plain string, ok bool) {
	at := strings.IndexByte(s, mark)
	if at < 0 {
		return s, true
	}
	b, ok := append(make([]byte, 0, len(s)), s[:at]...), true
	for i := at; i < len(s); i++ {
		if s[i] != mark {
			b = append(b, s[i])
			continue
		}
		hi, lo := -1, -1
		if i+2 < len(s) {
			hi, lo = strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		}
		if hi < 0 || lo < 0 {
			b, ok = append(b, mark), false
			continue
		}
		b, i = append(b, byte(hi<<4|lo)), i+2
	}
	return string(b), ok
}

// IsPlain reports whether Token keeps a byte.
func IsPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// Kinds of messages in CALLS.
const (
	KindCalls  = "c"
	KindAttach = "a"
	KindDetach = "detach"
	KindReplay = "b"
	KindLost   = "z"
)
