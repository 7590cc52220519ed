package signcheck

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Prefixes of Standard Webhooks secrets.
const symmetricPrefix, asymmetricPrefix = "whsec_", "whsk_"

// keysOf returns the keys that the receiver may have used. The correct one is first.
func keysOf(q *Question, s webhook.Signature) (all []variant) {
	for _, secret := range []variant{
		{bytes: []byte(q.Secret)},
		{[]byte(q.Previous), []Mistake{{Text: "Your receiver uses the previous secret. Update it to the new secret, or accept both until all receivers are updated. webhook-signature contains a signature for each secret; X-Signature uses only the new one."}}},
	} {
		text := string(secret.bytes)
		if text == "" {
			continue
		}
		for _, k := range slices.Concat(textForms(text, s), decodedForms(text, s)) {
			all = append(all, secret.but(k.bytes, k.wrong...))
		}
	}
	// If an environment variable is not set, the secret has one of these values.
	for _, unset := range []string{"", "undefined", "None", "null"} {
		says := "Your receiver's secret is empty: its environment variable is not set."
		if unset != "" {
			says = "Your receiver's secret is the word " + unset + ": its environment variable is not set."
		}
		all = append(all, variant{[]byte(unset), []Mistake{{Text: says}}})
	}
	return all
}

// rightKey returns the correct key of a Standard Webhooks secret.
func rightKey(secret string) []byte {
	if text, ok := strings.CutPrefix(secret, symmetricPrefix); ok {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b
		}
	}
	return []byte(secret)
}

// textForms returns the keys of a secret with white space or quotes that a receiver often adds by mistake,
// or omits. The correct key is first.
func textForms(secret string, s webhook.Signature) (forms []variant) {
	add := func(text string, wrong ...Mistake) {
		k := []byte(text)
		if s == webhook.SignatureStandard {
			k = rightKey(text)
		}
		forms = append(forms, variant{k, wrong})
	}
	add(secret)
	for _, f := range []struct{ text, has string }{
		{secret + "\n", "ends with a line break, as in a file"},
		{secret + "\r\n", "ends with a line break (CR LF), as in a file"},
		{secret + "\r", "ends with a carriage return, as in a Windows file"},
		{secret + " ", "ends with a space"},
		{" " + secret, "begins with a space"},
		{`"` + secret + `"`, "includes double quotes"},
		{"'" + secret + "'", "includes single quotes"},
	} {
		add(f.text, Mistake{"Your receiver's secret " + f.has + "; the destination's secret does not.", trimLines})
	}
	if trimmed := strings.Trim(strings.TrimSpace(secret), `"'`); trimmed != secret {
		add(trimmed, Mistake{Text: "The destination's secret has surrounding white space or quotes; your receiver's does not. Remove them from the destination."})
	}
	return forms
}

// decodedForms returns keys that result from decoding the secret wrongly, or not at all.
func decodedForms(secret string, s webhook.Signature) (all []variant) {
	add := func(k []byte, says string, lines []Line) {
		all = append(all, variant{k, []Mistake{{says, lines}}})
	}
	text, prefixed := strings.CutPrefix(secret, symmetricPrefix)
	standard := s == webhook.SignatureStandard
	switch decoded, err := base64.StdEncoding.DecodeString(text); {
	case prefixed && standard:
		add([]byte(secret), "Your receiver uses the secret including whsec_ as the key. The key is the decoded base64 after whsec_.", keyLines)
		add([]byte(text), "Your receiver uses the base64 after whsec_ as the key without decoding it. Decode it first.", keyLines)
	case prefixed:
		add([]byte(text), "Your receiver removes whsec_. X-Signature uses the full secret including whsec_.", textLines)
		if err == nil {
			add(decoded, "Your receiver decodes the base64 after whsec_. X-Signature uses the full secret including whsec_; webhook-signature uses the decoded key.", textLines)
		}
	case err == nil && standard:
		add(decoded, "Your receiver decodes the secret as base64, as Standard Webhooks libraries do. This destination's secret has no whsec_ prefix and is used unchanged. Set a secret that begins with whsec_, or pass the base64 of this secret to the library.",
			fix(`wh, err := standardwebhooks.NewWebhookRaw([]byte(secret))`, `new Webhook(Buffer.from(secret).toString('base64'))`, `Webhook(base64.b64encode(secret.encode()).decode())`))
	case err == nil:
		add(decoded, "Your receiver decodes the secret as base64. X-Signature uses the secret unchanged.", textLines)
	}
	if decoded, err := hex.DecodeString(secret); err == nil {
		add(decoded, "Your receiver decodes the secret as hex. The collector uses the secret unchanged.", textLines)
	}
	return all
}
