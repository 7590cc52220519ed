package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
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

// Kind returns the first and second token after the prefix.
func (n Names) Kind(subject string) (kind, token string) {
	kind, token, _ = strings.Cut(strings.TrimPrefix(subject, n.Prefix+"."), ".")
	return kind, token
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

// Bucket returns the name of a bucket's stream. Key returns the subject of a key. The names are those
// of the KeyValue API of NATS.
func (n Names) Bucket(kind string) string { return "KV_" + n.Prefix + "-" + kind }

// Key is described at Bucket.
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

const hexDigits = "0123456789ABCDEF"

// Token encodes a name as one token of a subject. It keeps letters, digits, - and _, and encodes
// other bytes as =XX.
func Token(name string) string {
	plain := name != ""
	for i := 0; i < len(name) && plain; i++ {
		plain = IsPlain(name[i])
	}
	if plain {
		return name
	}
	t := make([]byte, 0, len(name)+8)
	for i := range len(name) {
		if c := name[i]; IsPlain(c) {
			t = append(t, c)
		} else {
			t = append(t, '=', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	if len(t) == 0 {
		return "=" // encodes the empty name
	}
	return string(t)
}

// Untoken decodes the result of Token.
func Untoken(t string) (string, error) {
	if t == "=" {
		return "", nil
	}
	if !strings.Contains(t, "=") {
		return t, nil
	}
	name := make([]byte, 0, len(t))
	for i := 0; i < len(t); i++ {
		if t[i] != '=' {
			name = append(name, t[i])
			continue
		}
		if i+2 >= len(t) {
			return "", fmt.Errorf("journal: the subject token %q ends in the middle of an escape", t)
		}
		c, err := strconv.ParseUint(t[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("journal: the subject token %q has an escape that is not hexadecimal", t)
		}
		name, i = append(name, byte(c)), i+2
	}
	return string(name), nil
}

// IsPlain reports whether Token keeps a byte.
func IsPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// Matches reports whether a subject matches a pattern.
func Matches(pattern, subject string) bool {
	for more := true; more; {
		var p, s string
		p, pattern, more = strings.Cut(pattern, ".")
		if p == ">" {
			return subject != ""
		}
		rest := false
		if s, subject, rest = strings.Cut(subject, "."); p != "*" && p != s || rest != more {
			return false
		}
	}
	return true
}

// Kinds of messages in CALLS.
const (
	KindCalls  = "c"
	KindAttach = "a"
	KindDetach = "detach"
	KindReplay = "b"
	KindLost   = "z"
)
