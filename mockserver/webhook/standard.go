package webhook

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Signature selects how the requests of a destination are signed.
type Signature string

const (
	// SignatureService sends the X-Signature header; see [Sign].
	SignatureService Signature = "service"
	// SignatureStandard signs according to the Standard Webhooks specification; see
	// [SignStandard].
	SignatureStandard Signature = "standard"
	// SignatureBoth sends both signatures.
	SignatureBoth Signature = "both"
)

// Headers of the Standard Webhooks specification, https://www.standardwebhooks.com.
const (
	// StandardIDHeader contains the call's messageId, like X-Message-Id.
	StandardIDHeader = "Webhook-Id"
	// StandardTimestampHeader contains the time of the attempt in Unix seconds.
	StandardTimestampHeader = "Webhook-Timestamp"
	// StandardSignatureHeader contains a signature for each secret, separated by spaces.
	StandardSignatureHeader = "Webhook-Signature"
)

// Tolerance is the maximum difference between the timestamp of a standard signature and the
// receiver's clock, in either direction.
const Tolerance = 5 * time.Minute

// Errors of [VerifyStandard] in addition to [ErrNoSecret] and [ErrNoSignature].
var (
	ErrMalformedStandard = errors.New("webhook: the request has no webhook-id, or its webhook-timestamp is not in Unix seconds")
	ErrOldTimestamp      = errors.New("webhook: the webhook-timestamp differs from this machine's clock by more than 5 minutes: the request is old, or a clock is wrong")
	ErrWrongStandard     = errors.New("webhook: no webhook-signature matches the body, the id and the timestamp: the secrets differ, or one of these was changed")
)

// Prefixes of secrets and signatures in the specification.
const (
	symmetricPrefix, symmetricVersion = "whsec_", "v1,"
	privatePrefix, asymmetricVersion  = "whsk_", "v1a,"
	publicPrefix                      = "whpk_"
)

// maxSignatures is the maximum number of signatures that are checked for a request.
const maxSignatures = 16

// SignStandard returns a signature for the Webhook-Signature header according to the Standard
// Webhooks specification. It signs id, the time at in Unix seconds, and the body.
//
//	secret        signature
//	whsec_…       v1,…  HMAC-SHA256; the key is the base64-decoded rest of the secret
//	whsk_…        v1a,… Ed25519; the private key is the base64-decoded rest of the secret
//	other text    v1,…  HMAC-SHA256; the key is the secret itself
//
// The error reports an empty secret, or invalid base64 after the prefix. SignStandard is safe
// for concurrent use.
func SignStandard(secret, id string, at time.Time, body []byte) (string, error) {
	key, err := parseSecret(secret)
	if err != nil {
		return "", err
	}
	content := signedContent(id, strconv.FormatInt(at.Unix(), 10), body)
	switch {
	case key.private != nil:
		return asymmetricVersion + base64.StdEncoding.EncodeToString(ed25519.Sign(key.private, content)), nil
	case key.public != nil:
		return "", errors.New("webhook: the secret whpk_… is a public key, which cannot sign: sign with the private one, whsk_…")
	}
	return symmetricVersion + base64.StdEncoding.EncodeToString(key.sum(content)), nil
}

// VerifyStandard checks the Webhook-Signature header of a request in constant time. body must
// be the raw body of the request, before any parsing. The secret has one of the formats of
// [SignStandard], or is whpk_… with the public key of a whsk_… secret. One of the signatures
// must match, and the timestamp must be within [Tolerance] of the current time. The error is
// [ErrNoSecret], [ErrNoSignature], [ErrMalformedStandard], [ErrOldTimestamp] or
// [ErrWrongStandard], or reports an invalid secret. VerifyStandard is safe for concurrent use.
func VerifyStandard(secret string, body []byte, header http.Header) error {
	key, err := parseSecret(secret)
	if err != nil {
		return err
	}
	id, timestamp := header.Get(StandardIDHeader), header.Get(StandardTimestampHeader)
	signatures := strings.Fields(strings.Join(header.Values(StandardSignatureHeader), " "))
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	switch {
	case len(signatures) == 0:
		return ErrNoSignature
	case id == "" || err != nil:
		return ErrMalformedStandard
	case time.Since(time.Unix(seconds, 0)).Abs() > Tolerance:
		return ErrOldTimestamp
	}
	content := signedContent(id, timestamp, body)
	for _, s := range signatures[:min(len(signatures), maxSignatures)] {
		if key.fits(s, content) {
			return nil
		}
	}
	return ErrWrongStandard
}

func signedContent(id, timestamp string, body []byte) []byte {
	content := make([]byte, 0, len(id)+len(timestamp)+len(body)+2)
	content = append(append(content, id...), '.')
	content = append(append(content, timestamp...), '.')
	return append(content, body...)
}

// A secretKey is a parsed secret. Exactly one of its fields is set.
type secretKey struct {
	symmetric []byte
	private   ed25519.PrivateKey
	public    ed25519.PublicKey
}

func parseSecret(secret string) (k secretKey, err error) {
	if secret == "" {
		return k, ErrNoSecret
	}
	if text, ok := strings.CutPrefix(secret, symmetricPrefix); ok {
		if k.symmetric, err = base64.StdEncoding.DecodeString(text); err != nil || text == "" {
			err = errors.New("webhook: the secret is not whsec_ followed by base64: create one with echo whsec_$(openssl rand -base64 32)")
		}
		return k, err
	}
	if text, ok := strings.CutPrefix(secret, privatePrefix); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		switch {
		case err == nil && len(b) == ed25519.PrivateKeySize:
			k.private = b
		case err == nil && len(b) == ed25519.SeedSize:
			k.private = ed25519.NewKeyFromSeed(b)
		default:
			return k, errors.New("webhook: the secret is not whsk_ followed by the base64 of an Ed25519 private key (64 bytes) or seed (32 bytes)")
		}
		return k, nil
	}
	if text, ok := strings.CutPrefix(secret, publicPrefix); ok {
		if k.public, err = base64.StdEncoding.DecodeString(text); err != nil || len(k.public) != ed25519.PublicKeySize {
			err = errors.New("webhook: the secret is not whpk_ followed by the base64 of an Ed25519 public key (32 bytes)")
		}
		return k, err
	}
	k.symmetric = []byte(secret)
	return k, nil
}

func (k secretKey) sum(content []byte) []byte {
	mac := hmac.New(sha256.New, k.symmetric)
	mac.Write(content)
	return mac.Sum(nil)
}

func (k secretKey) fits(signature string, content []byte) bool {
	public := k.public
	if k.private != nil {
		public = k.private.Public().(ed25519.PublicKey)
	}
	version := symmetricVersion
	if public != nil {
		version = asymmetricVersion
	}
	text, ok := strings.CutPrefix(signature, version)
	if !ok {
		return false
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	switch {
	case err != nil:
		return false
	case public != nil:
		return ed25519.Verify(public, content, sum)
	}
	return hmac.Equal(sum, k.sum(content))
}
