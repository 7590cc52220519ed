package signcheck

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// contentsOf returns the byte strings that the receiver may have signed. The correct one is first.
func contentsOf(q *Question, s webhook.Signature) (all []variant) {
	bodies := bodiesOf(q)
	if s != webhook.SignatureStandard {
		all = append(all, bodies...)
		if len(bodies) > 0 {
			for _, at := range q.Sent {
				all = append(all, bodies[0].but(stamped(at.ID+"."+at.Timestamp+".", bodies[0].bytes),
					Mistake{"Your receiver signs the ID, the timestamp and the body. X-Signature covers only the body; webhook-signature covers all three.", fix(`mac.Write(body)`, `.update(body)`, `hmac.new(secret, body, hashlib.sha1)`)}))
			}
		}
		return all
	}
	for n, at := range q.Sent {
		var older []Mistake
		if n > 0 {
			older = []Mistake{{Text: "This is the signature of an earlier attempt. Each attempt has its own timestamp and signature: compare values from one request."}}
		}
		for _, b := range bodies {
			all = append(all, variant{wrong: older}.but(stamped(at.ID+"."+at.Timestamp+".", b.bytes), b.wrong...))
		}
		if len(bodies) > 0 {
			all = append(all, unstamped(at, bodies[0], older)...)
		}
	}
	for _, b := range bodies {
		all = append(all, b.but(b.bytes, Mistake{"Your receiver signs only the body. webhook-signature covers the ID, the timestamp and the body, separated by dots.", contentLines}))
	}
	return all
}

// unstamped returns contents in which the prefix is wrong or incomplete.
func unstamped(at Stamp, b variant, older []Mistake) (all []variant) {
	for _, way := range []struct{ before, says string }{
		{at.Timestamp + ".", "Your receiver signs the timestamp and the body, without the ID"},
		{at.ID + ".", "Your receiver signs the ID and the body, without the timestamp"},
		{at.Timestamp + "." + at.ID + ".", "Your receiver puts the timestamp before the ID"},
		{at.ID + at.Timestamp, "Your receiver omits the dots"},
		{at.ID + "." + at.Timestamp + "000.", "Your receiver uses a timestamp in milliseconds"},
	} {
		v := variant{wrong: older}.but(stamped(way.before, b.bytes), b.wrong...)
		all = append(all, v.but(v.bytes, Mistake{way.says + ". webhook-signature covers webhook-id, a dot, the unchanged webhook-timestamp, a dot, and the body.", contentLines}))
	}
	return all
}

func stamped(before string, body []byte) []byte {
	return append(append(make([]byte, 0, len(before)+len(body)), before...), body...)
}

// smallBody is the maximum size in bytes of a body that is also tried in other JSON encodings.
const smallBody = 64 << 10

// bodiesOf returns the bodies that the receiver may have signed. The first one is the body that the
// collector signed or, if it is unknown, the pasted body.
func bodiesOf(q *Question) (all []variant) {
	add := func(body []byte, says string) {
		for _, known := range all {
			if bytes.Equal(known.bytes, body) {
				return
			}
		}
		if body == nil {
			return
		}
		c := variant{bytes: body}
		if says != "" {
			c.wrong = []Mistake{{says + " Sign the raw bytes before parsing them.", rawLines}}
		}
		all = append(all, c)
	}
	base := q.Body
	if base == nil {
		base = q.Pasted
	}
	if base == nil {
		return nil
	}
	add(base, "")
	addWritten(base, add)
	if q.Body != nil {
		add(q.Pasted, "Your receiver signs the pasted body, which differs from the sent body.")
	}
	for _, b := range [][]byte{q.Body, q.Pasted} {
		if b == nil {
			continue
		}
		add(append(b[:len(b):len(b)], '\n'), "Your receiver adds a line break to the body.")
		add(append(b[:len(b):len(b)], '\r', '\n'), "Your receiver adds a line break (CR LF) to the body.")
		add(bytes.TrimSpace(b), "Your receiver removes white space around the body.")
	}
	add([]byte{}, "Your receiver signs an empty body: the body was already read.")
	add([]byte("[object Object]"), "Your receiver signs the string [object Object]: JavaScript converted the parsed body to a string.")
	add([]byte("{}"), "Your receiver signs {}: the body was not parsed, or the parser does not accept its Content-Type.")
	return all
}

// addWritten adds the body in the encodings of common JSON libraries.
func addWritten(body []byte, add func(body []byte, says string)) {
	if len(body) > smallBody {
		return
	}
	plain, err := webhook.Canonical(nil, body)
	if err != nil {
		return
	}
	again := "Your receiver signs parsed and re-encoded JSON"
	add(plain, again+", as JSON.stringify does.")
	add(rewrite(plain, style{spaces: true, ascii: true}), again+" with spaces, as Python's json.dumps does.")
	add(rewrite(plain, style{spaces: true}), again+" with spaces, as Python's json.dumps with ensure_ascii=False does.")
	add(rewrite(plain, style{ascii: true}), again+" with non-ASCII characters escaped, as Python's json.dumps with separators=(',', ':') does.")
	add(rewrite(plain, style{ascii: true, slash: true}), again+" with slashes escaped, as PHP's json_encode does.")
	add(rewrite(plain, style{slash: true}), again+" with slashes escaped, as PHP's json_encode with JSON_UNESCAPED_UNICODE does.")
	var v any
	if json.Unmarshal(plain, &v) == nil {
		sorted, _ := json.Marshal(v) // cannot fail: v was decoded from JSON
		add(sorted, again+" with its keys sorted, as Go's encoding/json does.")
		add(text.JSON(v, ""), again+" with its keys sorted.")
		add(append(slices.Clip(sorted), '\n'), again+" with its keys sorted and a line break at the end, as Go's json.Encoder does.")
	}
	add(indent(plain, "  "), again+" on several lines, as JSON.stringify(body, null, 2) does.")
	add(indent(plain, "    "), again+" on several lines, as json.dumps(body, indent=4) does.")
	add(text.JSON(string(plain), ""), again+" as a quoted string: JSON.stringify received a string.")
}
