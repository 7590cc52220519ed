package signcheck

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// maxReadings is the maximum number of signatures that are read from a webhook-signature header.
const maxReadings = 4

// readingsOf returns the digests that a signature string may contain.
func readingsOf(given string, s webhook.Signature) (all []variant) {
	given = strings.Trim(strings.TrimSpace(given), `"'`)
	if name, value, ok := strings.Cut(given, ":"); ok && (strings.EqualFold(name, webhook.SignatureHeader) || strings.EqualFold(name, webhook.StandardSignatureHeader)) {
		given = strings.TrimSpace(value) // given is a complete header line
	}
	if s == webhook.SignatureStandard {
		for _, text := range strings.Fields(given)[:min(len(strings.Fields(given)), maxReadings)] {
			all = append(all, standardReadings(text)...)
		}
		return all
	}
	return serviceReadings(given)
}

func serviceReadings(text string) (all []variant) {
	var wrong []Mistake
	for _, prefix := range []string{"sha1=", "sha256=", "sha512=", "v1=", "v1,"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			text = rest
			wrong = append(wrong, Mistake{Text: "The signature has the prefix " + prefix + "; X-Signature contains only the digest.", Fix: hexLines})
			break
		}
	}
	if sum, err := hex.DecodeString(text); err == nil {
		if strings.ToLower(text) != text {
			wrong = append(wrong, Mistake{"The signature is upper-case hex. X-Signature is lower case, so a string comparison fails.", hexLines})
		}
		return []variant{{sum, wrong}}
	}
	if sum, _, ok := decodeBase64(text); ok {
		return []variant{{sum, append(wrong, Mistake{"Your receiver writes base64. X-Signature is hex.", hexLines})}}
	}
	return nil
}

func standardReadings(text string) []variant {
	text, versioned := strings.CutPrefix(text, "v1,")
	if !versioned {
		text = strings.TrimPrefix(text, "v1a,")
	}
	if sum, err := hex.DecodeString(text); err == nil {
		return []variant{{sum, []Mistake{{"Your receiver writes hex. webhook-signature is base64 after \"v1,\".", b64Lines}}}}
	}
	sum, form, ok := decodeBase64(text)
	switch {
	case !ok:
		return nil
	case form != "":
		return []variant{{sum, []Mistake{{"Your receiver writes " + form + ". webhook-signature uses standard base64 with padding.", b64Lines}}}}
	}
	return []variant{{bytes: sum}}
}

// decodeBase64 decodes base64 in any variant. form is the name of the variant, or "" for the standard
// one.
func decodeBase64(text string) (sum []byte, form string, ok bool) {
	for _, f := range []struct {
		of   *base64.Encoding
		name string
	}{
		{base64.StdEncoding, ""}, {base64.URLEncoding, "URL-safe base64"},
		{base64.RawStdEncoding, "base64 without padding"}, {base64.RawURLEncoding, "URL-safe base64 without padding"},
	} {
		if sum, err := f.of.DecodeString(text); err == nil {
			return sum, f.name, len(sum) > 0
		}
	}
	return nil, "", false
}
