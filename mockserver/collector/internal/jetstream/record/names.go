package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Names are those of streams, subjects and consumers, all under one prefix, so
// that several collectors can share a cluster.
//
//	c.<source>            calls, as they were accepted
//	a.<destination>       a destination was attached, or detached
//	b.<destination>       calls to be replayed for a destination
//	z                     a number that was used before a power cut
//	o                     outcomes of leases
//	o.<destination>       those of a destination whose calls one process delivers in order
//	at.<destination>.<n>  retry n, waiting for its time
//	due.<destination>.<n> retry n, due
//	f.<destination>.<n>   failed calls
//	m.<destination>.<n>   marks of those that were replayed
//	t                     attempts
//	s.<key>               what the journal keeps about itself
type Names struct{ Prefix string }

// Stream names a stream of a kind.
func (n Names) Stream(kind string) string { return n.Prefix + "-" + kind }

// Subject returns the subject of these tokens under the prefix.
func (n Names) Subject(tokens ...string) string {
	return n.Prefix + "." + strings.Join(tokens, ".")
}

// Kind returns the token that follows the prefix, and the one after it.
func (n Names) Kind(subject string) (kind, token string) {
	kind, token, _ = strings.Cut(strings.TrimPrefix(subject, n.Prefix+"."), ".")
	return kind, token
}

// Consumer names the consumer of a destination. The names of consumers are
// names of files, and must be short.
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

// Buckets of keys and values beside the calls.
const (
	BucketSettings = "settings"
	BucketState    = "state"
)

// Bucket names a bucket of a kind.
func (n Names) Bucket(kind string) string { return n.Prefix + "-" + kind }

// CallSubjects returns the subjects of calls of sources, or of all.
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

// Token writes any name as one token of a subject: letters, digits, - and _ stay,
// other bytes become =XX.
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
		return "=" // the empty name
	}
	return string(t)
}

// Untoken reads a name back.
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

// IsPlain reports whether a byte stands for itself in a token.
func IsPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

// Matches reports whether a subject is one of those that a pattern stands for.
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

// kinds of messages in CALLS.
const (
	KindCalls  = "c"
	KindAttach = "a"
	KindDetach = "detach"
	KindReplay = "b"
	KindLost   = "z"
)
