package redact_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/redact"
)

func sum(text string) string {
	h := hmac.New(sha256.New, []byte("key"))
	h.Write([]byte(text))
	return hex.EncodeToString(h.Sum(nil))
}

func rules(t testing.TB, remove, hash, mask []string) *redact.Rules {
	r := redact.New([]byte("key"))
	for action, paths := range map[redact.Action][]string{redact.Remove: remove, redact.Hash: hash, redact.Mask: mask} {
		for _, path := range paths {
			require.NoError(t, redact.Check(path, action), path)
			r.Add(path, action)
		}
	}
	return r
}

func TestApply(t *testing.T) {
	for name, test := range map[string]struct {
		remove, hash, mask []string
		call, want         string
	}{
		"other values keep their text": {
			remove: []string{"context.ip"},
			call:   `{"type" : "track","context":{ "ip":"1.2.3.4", "n":1.10,"big":12345678901234567890 },"properties":{"ip":"x"}}`,
			want:   `{"type" : "track","context":{"n":1.10,"big":12345678901234567890},"properties":{"ip":"x"}}`,
		},
		"the only value":          {remove: []string{"context.ip"}, call: `{"context":{"ip":1}}`, want: `{"context":{}}`},
		"a missing value":         {remove: []string{"context.ip", "traits.a.b"}, call: `{"traits":{"a":"b"}}`, want: `{"traits":{"a":"b"}}`},
		"an escaped key":          {remove: []string{"context.ip"}, call: `{"conte\u0078t":{"\u0069p":1}}`, want: `{"conte\u0078t":{}}`},
		"every duplicate of key":  {remove: []string{"context.ip"}, call: `{"context":{"ip":1,"ip":2},"context":{"ip":3}}`, want: `{"context":{},"context":{}}`},
		"keys are case-sensitive": {remove: []string{"traits.email"}, call: `{"traits":{"Email":"a"}}`, want: `{"traits":{"Email":"a"}}`},
		"a star for elements": {
			remove: []string{"properties.products.*.email"},
			call:   `{"properties":{"products":[{"email":"a","id":1},{"id":2},3]}}`, want: `{"properties":{"products":[{"id":1},{"id":2},3]}}`,
		},
		"a star for keys":        {remove: []string{"traits.*.email"}, call: `{"traits":{"work":{"email":1},"email":2}}`, want: `{"traits":{"work":{},"email":2}}`},
		"a star at the end":      {remove: []string{"properties.*"}, call: `{"properties":{"a":1,"b":[2]}}`, want: `{"properties":{}}`},
		"a key and a star":       {remove: []string{"traits.a.x", "traits.*.y"}, call: `{"traits":{"a":{"x":1,"y":2,"z":3},"b":{"x":1,"y":2}}}`, want: `{"traits":{"a":{"z":3},"b":{"x":1}}}`},
		"a key with a dot":       {remove: []string{`traits.a\.b`}, call: `{"traits":{"a.b":1,"a":{"b":2}}}`, want: `{"traits":{"a":{"b":2}}}`},
		"a key that is a star":   {remove: []string{`traits.\*`}, call: `{"traits":{"*":1,"a":2}}`, want: `{"traits":{"a":2}}`},
		"a key with a backslash": {remove: []string{`traits.\\`}, call: `{"traits":{"\\":1,"a":2}}`, want: `{"traits":{"a":2}}`},
		"hash of invalid UTF-8":  {hash: []string{"userId"}, call: "{\"userId\":\"a\xff\"}", want: `{"userId":"` + sum("a\uFFFD") + `"}`},
		"hash of a string":       {hash: []string{"userId"}, call: `{"userId":"ada"}`, want: `{"userId":"` + sum("ada") + `"}`},
		"hash of an escaped one": {hash: []string{"userId"}, call: `{"userId":"\u0061da"}`, want: `{"userId":"` + sum("ada") + `"}`},
		"hash of a number":       {hash: []string{"userId"}, call: `{"userId":17}`, want: `{"userId":"` + sum("17") + `"}`},
		"an empty string stays":  {hash: []string{"userId"}, mask: []string{"traits.a"}, call: `{"userId":"","traits":{"a":""}}`, want: `{"userId":"","traits":{"a":""}}`},
		"null stays null":        {hash: []string{"traits.a"}, mask: []string{"traits.b"}, call: `{"traits":{"a":null,"b":null}}`, want: `{"traits":{"a":null,"b":null}}`},
		"hash of everything in it": {
			hash: []string{"traits.emails"},
			call: `{"traits":{"emails":["a",{"b":"c","d":[]}]}}`, want: `{"traits":{"emails":["` + sum("a") + `",{"b":"` + sum("c") + `","d":[]}]}}`,
		},
		"masks": {
			mask: []string{"properties.*"},
			call: `{"properties":{"card":"4111 1111 1111 1234","n":4111111111111234,"short":"12345678901","end":"long enough, yes?","é":"ééééééééé","ok":true}}`,
			want: `{"properties":{"card":"****1234","n":"****1234","short":"****","end":"****","é":"****","ok":"****"}}`,
		},
		"remove precedes mask, and mask hash": {
			remove: []string{"traits.a"}, mask: []string{"traits.a", "traits.b"}, hash: []string{"traits.*"},
			call: `{"traits":{"a":1,"b":2,"c":3}}`, want: `{"traits":{"b":"****","c":"` + sum("3") + `"}}`,
		},
		"a stronger rule within an object": {
			hash: []string{"traits.a"}, remove: []string{"traits.a.secret"},
			call: `{"traits":{"a":{"secret":1,"b":2}}}`, want: `{"traits":{"a":{"b":"` + sum("2") + `"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rules(t, test.remove, test.hash, test.mask)
			assert.Equal(t, test.want, string(r.Apply(nil, []byte(test.call))))
			assert.Equal(t, "x"+test.want, string(r.Apply([]byte("x"), []byte(test.call))), "appends")
		})
	}
	var none *redact.Rules
	assert.Equal(t, `{"userId":"ada"}`, string(none.Apply(nil, []byte(`{"userId":"ada"}`))))
}

func TestHashedField(t *testing.T) {
	r := rules(t, nil, []string{"userId", "traits.email"}, nil)
	assert.True(t, r.Hashes("userId"))
	assert.False(t, r.Hashes("anonymousId"))
	assert.False(t, (*redact.Rules)(nil).Hashes("userId"))
	assert.Equal(t, sum("ada"), r.Text("ada"))
}

func TestCheck(t *testing.T) {
	for path, problem := range map[string]string{
		"context.ip":                        "",
		`traits.a\.b.*.c`:                   "",
		"":                                  "has an empty key",
		"traits.":                           "has an empty key",
		"traits..a":                         "has an empty key",
		"traits":                            "refers to a whole object",
		"*.ip":                              "does not start with context, properties or traits, and is not userId, anonymousId, previousId or groupId",
		"event":                             "does not start with context, properties or traits, and is not userId, anonymousId, previousId or groupId",
		"userId.a":                          "does not start with context, properties or traits, and is not userId, anonymousId, previousId or groupId",
		"userId":                            "can only be hashed",
		`traits.a\b`:                        "has a backslash that does not precede a dot, a star or a backslash",
		`traits.a\`:                         "has a backslash that does not precede a dot, a star or a backslash",
		"traits" + strings.Repeat(".a", 20): "has more than 20 keys",
	} {
		err := redact.Check(path, redact.Remove)
		if problem == "" {
			assert.NoError(t, err, path)
		} else {
			assert.EqualError(t, err, problem, path)
		}
	}
	assert.NoError(t, redact.Check("userId", redact.Hash))
}

// FuzzApply checks that the result is valid JSON, that redacted values are gone, and that redaction
// without matching paths changes nothing but white space.
func FuzzApply(f *testing.F) {
	f.Add(`{"context":{"ip":"1.2.3.4","a":[1,{"ip":"x"}]},"userId":"ada"}`)
	f.Add(`{"traits":{"a":null,"a":{"b":"\ud800"}},"properties":[[]]}`)
	f.Fuzz(func(t *testing.T, call string) {
		if !json.Valid([]byte(call)) || strings.TrimSpace(call) == "" || strings.Count(call, "[")+strings.Count(call, "{") > 500 {
			return
		}
		call = strings.TrimSpace(call)
		r := rules(t, []string{"context.*.ip", "context.ip"}, []string{"userId", "traits.*"}, []string{"properties.*.*"})
		got := r.Apply(nil, []byte(call))
		require.True(t, json.Valid(got), "%s", got)
		if object, ok := decode(t, got).(map[string]any); ok {
			if context, ok := object["context"].(map[string]any); ok {
				assert.NotContains(t, context, "ip")
			}
		}
		unchanged := rules(t, []string{"traits.there is no such key"}, nil, nil).Apply(nil, []byte(call))
		assert.Equal(t, decode(t, []byte(call)), decode(t, unchanged))
	})
}

// decode decodes a value and keeps the digits of numbers.
func decode(t *testing.T, text []byte) (value any) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	require.NoError(t, in.Decode(&value))
	return value
}

func BenchmarkApply(b *testing.B) {
	r := rules(b, []string{"context.ip", "traits.email"}, []string{"userId"}, []string{"properties.card"})
	call := []byte(`{"type":"track","userId":"user-12345","event":"Order Completed","messageId":"m-1","context":{"ip":"1.2.3.4","library":{"name":"analytics-go","version":"1.0"}},"properties":{"card":"4111111111111234","total":12.5,"products":[{"id":1},{"id":2}]},"timestamp":"2026-01-01T00:00:00.000Z"}`)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = r.Apply(dst[:0], call)
	}
}
