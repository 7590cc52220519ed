package signcheck

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// Prefixes of secrets in the Standard Webhooks specification.
const symmetricPrefix, asymmetricPrefix = "whsec_", "whsk_"

// A key is what a receiver can have made of the secret, and what is wrong with it.
type key struct {
	bytes []byte
	wrong []*Mistake
}

// keysOf returns what a receiver can take for the key of a scheme: the right one first.
func keysOf(q *Question, s webhook.Signature) (all []key) {
	for _, secret := range []struct {
		text  string
		wrong []*Mistake
	}{
		{q.Secret, nil},
		{q.Previous, []*Mistake{{Text: "Your receiver has the previous secret. Give it the destination's new one, or accept both until all receivers have it: webhook-signature is made with each, X-Signature with the new one alone."}}},
	} {
		if secret.text == "" {
			continue
		}
		right := rightKey
		if s != webhook.SignatureStandard {
			right = func(text string) []byte { return []byte(text) }
		}
		for _, form := range textForms(secret.text) {
			all = append(all, key{right(form.text), with(secret.wrong, form.wrong)})
		}
		for _, k := range decodedForms(secret.text, s) {
			all = append(all, key{k.bytes, append(secret.wrong[:len(secret.wrong):len(secret.wrong)], k.wrong...)})
		}
	}
	// What a variable of the environment is where it is not set.
	for _, unset := range []string{"", "undefined", "None", "null"} {
		says := "Your receiver's secret is empty: the variable that it reads it from is not set."
		if unset != "" {
			says = "Your receiver's secret is the word " + unset + ": the variable that it reads it from is not set."
		}
		all = append(all, key{[]byte(unset), []*Mistake{{Text: says}}})
	}
	return all
}

func with(wrong []*Mistake, more *Mistake) []*Mistake {
	if more == nil {
		return wrong
	}
	return append(wrong[:len(wrong):len(wrong)], more)
}

// rightKey is what a secret stands for in the Standard Webhooks specification.
func rightKey(secret string) []byte {
	if text, ok := strings.CutPrefix(secret, symmetricPrefix); ok {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b
		}
	}
	return []byte(secret)
}

type textForm struct {
	text  string
	wrong *Mistake
}

// textForms are texts that a secret becomes where it is copied or read with something
// around it, or without.
func textForms(secret string) []textForm {
	forms := []textForm{{text: secret}}
	for _, f := range []struct{ text, has string }{
		{secret + "\n", "has a line break at its end, as a file has"},
		{secret + "\r\n", "has a line break (CR LF) at its end, as a file has"},
		{secret + "\r", "has a carriage return at its end, as a line of a file from Windows has"},
		{secret + " ", "has a space at its end"},
		{" " + secret, "has a space before it"},
		{`"` + secret + `"`, "stands in double quotes, which have become a part of it"},
		{"'" + secret + "'", "stands in single quotes, which have become a part of it"},
	} {
		forms = append(forms, textForm{f.text, &Mistake{"Your receiver's secret " + f.has + "; the destination's has not.", trimLines}})
	}
	if trimmed := strings.Trim(strings.TrimSpace(secret), `"'`); trimmed != secret {
		forms = append(forms, textForm{trimmed, &Mistake{Text: "The destination's secret has white space or quotes around it, and your receiver's has not. Set the destination's without them."}})
	}
	return forms
}

// decodedForms are keys that a secret becomes where it is taken for something that stands
// for others bytes, or is not.
func decodedForms(secret string, s webhook.Signature) (all []key) {
	add := func(k []byte, says string, lines []Line) {
		all = append(all, key{k, []*Mistake{{says, lines}}})
	}
	text, prefixed := strings.CutPrefix(secret, symmetricPrefix)
	standard := s == webhook.SignatureStandard
	switch decoded, err := base64.StdEncoding.DecodeString(text); {
	case prefixed && standard:
		add([]byte(secret), "Your receiver takes the secret as it stands, with whsec_, for the key; the key is what the base64 behind whsec_ stands for.", keyLines)
		add([]byte(text), "Your receiver takes the text behind whsec_ for the key, without decoding it; the key is what that base64 stands for.", keyLines)
	case prefixed:
		add([]byte(text), "Your receiver leaves out whsec_; X-Signature is made with the secret as it stands, with whsec_.", textLines)
		if err == nil {
			add(decoded, "Your receiver decodes the base64 behind whsec_; X-Signature is made with the secret as it stands, with whsec_. webhook-signature is made with what it stands for.", textLines)
		}
	case err == nil && standard:
		add(decoded, "Your receiver decodes the secret as base64, as libraries of the specification do; this destination's has no whsec_ before it, and so is the key as it stands. Set a secret that begins with whsec_, or give the library the base64 of this one.",
			mend(`wh, err := standardwebhooks.NewWebhookRaw([]byte(secret))`, `new Webhook(Buffer.from(secret).toString('base64'))`, `Webhook(base64.b64encode(secret.encode()).decode())`))
	case err == nil:
		add(decoded, "Your receiver decodes the secret as base64; X-Signature is made with its text.", textLines)
	}
	if decoded, err := hex.DecodeString(secret); err == nil {
		add(decoded, "Your receiver decodes the secret as hex; the collector signs with its text.", textLines)
	}
	return all
}
