package webhook

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"sync"
)

// Errors of [Verify] and [VerifyRequest].
var (
	ErrNoSecret           = errors.New("webhook: no shared secret: pass the secret of the destination's settings")
	ErrNoSignature        = errors.New("webhook: the request has no signature: set the destination's shared secret, and its signature to service for " + SignatureHeader + ", standard for webhook-signature, or both")
	ErrMalformedSignature = errors.New("webhook: the " + SignatureHeader + " header is not 40 lower-case hexadecimal digits")
	ErrWrongSignature     = errors.New("webhook: the " + SignatureHeader + " header does not match the body: the secrets differ, or the body was changed")
)

// Sign returns the X-Signature header for a body: the HMAC-SHA1 of the body as 40 lower-case
// hexadecimal digits. The secret is the key. Sign is safe for concurrent use.
func Sign(secret string, body []byte) string {
	s := signers.Get().(*signer)
	defer signers.Put(s)
	if s.mac == nil || s.secret != secret {
		s.secret, s.mac = secret, hmac.New(sha1.New, []byte(secret))
	}
	s.mac.Reset()
	s.mac.Write(body)
	s.sum = s.mac.Sum(s.sum[:0])
	s.text = hex.AppendEncode(s.text[:0], s.sum)
	return string(s.text)
}

// A signer caches the HMAC state of its last secret.
type signer struct {
	secret    string
	mac       hash.Hash // nil before the first use
	sum, text []byte
}

var signers = sync.Pool{New: func() any { return new(signer) }}

// Verify checks the X-Signature header of a request in constant time. body must be the raw body of
// the request, before any parsing. The error is [ErrNoSecret] if the secret is empty. Otherwise it
// is [ErrNoSignature], [ErrMalformedSignature] or [ErrWrongSignature]. It does not reveal the
// correct signature. Verify is safe for concurrent use.
func Verify(secret string, body []byte, signature string) error {
	switch {
	case secret == "":
		return ErrNoSecret
	case signature == "":
		return ErrNoSignature
	case !isSignature(signature):
		return ErrMalformedSignature
	case !hmac.Equal([]byte(Sign(secret, body)), []byte(signature)):
		return ErrWrongSignature
	}
	return nil
}

func isSignature(s string) bool {
	return len(s) == hex.EncodedLen(sha1.Size) && strings.Trim(s, "0123456789abcdef") == ""
}
