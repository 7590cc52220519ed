package signcheck

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxStamps is the maximum number of attempts that are examined.
const maxStamps = 4

// An Answer is the result of Check.
type Answer struct {
	Found    bool      // whether Check found an explanation
	Header   string    // header that should contain the signature
	OfPasted bool      // the signature covers the pasted body
	Mistakes []Mistake // the receiver's mistakes; empty for a valid signature
	Tried    []string  // variants that Check tried, if none matched
}

// Check returns the explanation of the signature that needs the fewest mistakes.
func Check(q Question) Answer {
	q.Sent = q.Sent[:min(len(q.Sent), maxStamps)]
	var best *way
	for _, s := range schemesOf(&q) {
		best = s.search(&q, best)
	}
	if best == nil {
		return Answer{Tried: tried(&q)}
	}
	a := Answer{Found: true, Header: webhook.SignatureHeader}
	if best.scheme == webhook.SignatureStandard {
		a.Header = "webhook-signature"
	}
	a.OfPasted = q.Pasted != nil && bytes.HasSuffix(best.content, q.Pasted)
	a.Mistakes = best.mistakes
	return a
}

// A scheme is a signature scheme.
type scheme struct {
	name webhook.Signature // SignatureService or SignatureStandard
	hash string            // the correct hash
	hashing
}

var (
	serviceScheme  = scheme{webhook.SignatureService, "SHA-1", serviceHash}
	standardScheme = scheme{webhook.SignatureStandard, "SHA-256", standardHash}
)

// schemesOf returns the schemes of a destination.
func schemesOf(q *Question) []scheme {
	switch q.Scheme {
	case webhook.SignatureStandard:
		return []scheme{standardScheme}
	case webhook.SignatureBoth:
		return []scheme{serviceScheme, standardScheme}
	}
	return []scheme{serviceScheme}
}

// hashes contains the hash functions to try.
var hashes = []struct {
	name string
	new  func() hash.Hash
}{
	{"SHA-1", sha1.New}, {"SHA-256", sha256.New}, {"SHA-512", sha512.New}, {"SHA-384", sha512.New384}, {"MD5", md5.New},
}

// A way is an explanation of the signature.
type way struct {
	scheme   webhook.Signature
	content  []byte
	mistakes []Mistake
}

// search returns an explanation with fewer mistakes than best. If there is none, it returns best.
func (s scheme) search(q *Question, best *way) *way {
	keys, contents := keysOf(q, s.name), contentsOf(q, s.name)
	for _, r := range readingsOf(q.Given, s.name) {
		try := func(mac func(content []byte) []byte, wrong ...[]Mistake) {
			for _, c := range contents {
				mistakes := slices.Concat(append(wrong, c.wrong)...)
				if (best == nil || len(mistakes) < len(best.mistakes)) && bytes.Equal(mac(c.bytes), r.bytes) {
					best = &way{s.name, c.bytes, mistakes}
				}
			}
		}
		if s.name == webhook.SignatureStandard {
			s.tryPrivate(q, r, try)
		}
		for _, h := range hashes {
			if h.new().Size() != len(r.bytes) {
				continue
			}
			var hashWrong []Mistake
			if h.name != s.hash {
				hashWrong = []Mistake{wrongHash(h.name, s.hashing)}
			}
			for _, k := range keys {
				mac := hmac.New(h.new, k.bytes)
				try(func(content []byte) []byte {
					mac.Reset()
					mac.Write(content)
					return mac.Sum(nil)
				}, hashWrong, r.wrong, k.wrong)
			}
			for _, p := range plainForms {
				try(func(content []byte) []byte {
					sum := h.new()
					sum.Write(p.join(q.Secret, content))
					return sum.Sum(nil)
				}, []Mistake{noHMAC(h.name, p.over, s.hashing)}, r.wrong)
			}
		}
	}
	return best
}

// plainForms contains hash functions without HMAC.
var plainForms = []struct {
	over string
	join func(secret string, content []byte) []byte
}{
	{"the secret followed by the content", func(secret string, content []byte) []byte { return stamped(secret, content) }},
	{"the content followed by the secret", func(secret string, content []byte) []byte {
		return append(content[:len(content):len(content)], secret...)
	}},
	{"the content without the secret", func(_ string, content []byte) []byte { return content }},
}

// tryPrivate tries private keys. Their signatures are deterministic, so they can be compared.
func (s scheme) tryPrivate(q *Question, r variant, try func(mac func([]byte) []byte, wrong ...[]Mistake)) {
	for n, secret := range []string{q.Secret, q.Previous} {
		if !strings.HasPrefix(secret, asymmetricPrefix) {
			continue
		}
		var before []Mistake
		if n > 0 {
			before = []Mistake{{Text: "Signed with the previous private key."}}
		}
		try(func(content []byte) []byte { return signPrivate(secret, content) }, r.wrong, before)
	}
}

// signPrivate signs content, which includes the ID and the timestamp.
func signPrivate(secret string, content []byte) []byte {
	id, rest, _ := bytes.Cut(content, []byte("."))
	seconds, body, _ := bytes.Cut(rest, []byte("."))
	at, err := strconv.ParseInt(string(seconds), 10, 64)
	if err != nil {
		return nil
	}
	text, err := webhook.SignStandard(secret, string(id), time.Unix(at, 0), body)
	if err != nil {
		return nil
	}
	for _, r := range standardReadings(text) {
		return r.bytes
	}
	return nil
}

// tried describes the variants that Check tried.
func tried(q *Question) []string {
	all := []string{
		"HMAC and plain hashes with SHA-1, SHA-256, SHA-384, SHA-512 and MD5, in hex (upper and lower case) and base64",
		"the secret unchanged, with and without surrounding white space and quotes, decoded from base64 and hex, and missing",
	}
	if q.Previous != "" {
		all = append(all, "the previous secret in the same variants")
	}
	switch {
	case q.Body == nil && q.Pasted == nil:
		return nil
	case q.Body == nil:
		all = append(all, "the pasted body unchanged, with a line break, and re-encoded as in JavaScript, Python, Go and PHP; an empty body")
	default:
		all = append(all, "the sent body unchanged, with a line break, and re-encoded as in JavaScript, Python, Go and PHP; an empty body")
	}
	if q.Pasted != nil && q.Body != nil {
		all = append(all, "the pasted body")
	}
	if q.Scheme == webhook.SignatureStandard || q.Scheme == webhook.SignatureBoth {
		if len(q.Sent) == 0 {
			return append(all, "the body only: no attempt with a Standard Webhooks signature is retained, so the ID and timestamp are unknown")
		}
		all = append(all, "with the ID and timestamp, without either, in reverse order, and in milliseconds")
	}
	return all
}
