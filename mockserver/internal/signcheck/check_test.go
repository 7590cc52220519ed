package signcheck_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/signcheck"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	secret = "s3cret"
	body   = `{"version":2,"type":"track","event":"Café <b>","url":"/a/b","properties":{"z":1,"a":[1,2]}}`
)

func mac(h func() hash.Hash, key, content string) []byte {
	m := hmac.New(h, []byte(key))
	m.Write([]byte(content))
	return m.Sum(nil)
}

func plain(h func() hash.Hash, content string) []byte {
	m := h()
	m.Write([]byte(content))
	return m.Sum(nil)
}

var (
	inHex    = hex.EncodeToString
	inBase64 = base64.StdEncoding.EncodeToString
)

func sha1Hex(key, content string) string { return inHex(mac(sha1.New, key, content)) }

func TestCheckOfXSignature(t *testing.T) {
	for name, c := range map[string]struct {
		given  string
		secret string // secret of the receiver; the default is that of the destination
		pasted string
		want   []string // a substring of each expected mistake
	}{
		"right":                     {given: sha1Hex(secret, body)},
		"right, a line of a header": {given: "X-Signature: " + sha1Hex(secret, body)},
		"SHA-256":                   {given: inHex(mac(sha256.New, secret, body)), want: []string{"Your receiver uses SHA-256. X-Signature uses HMAC-SHA1."}},
		"SHA-512":                   {given: inHex(mac(sha512.New, secret, body)), want: []string{"uses SHA-512"}},
		"MD5":                       {given: inHex(mac(md5.New, secret, body)), want: []string{"uses MD5"}},
		"base64":                    {given: inBase64(mac(sha1.New, secret, body)), want: []string{"writes base64. X-Signature is hex."}},
		"base64 for URLs":           {given: base64.RawURLEncoding.EncodeToString(mac(sha1.New, secret, body)), want: []string{"writes base64"}},
		"upper case":                {given: strings.ToUpper(sha1Hex(secret, body)), want: []string{"upper-case hex"}},
		"prefix":                    {given: "sha1=" + sha1Hex(secret, body), want: []string{"the prefix sha1="}},
		"SHA-256 in base64":         {given: inBase64(mac(sha256.New, secret, body)), want: []string{"uses SHA-256", "writes base64"}},
		"no HMAC, secret first":     {given: inHex(plain(sha1.New, secret+body)), want: []string{"plain SHA-1 over the secret followed by the content"}},
		"no HMAC, secret last":      {given: inHex(plain(sha256.New, body+secret)), want: []string{"plain SHA-256 over the content followed by the secret"}},
		"no secret":                 {given: inHex(plain(sha1.New, body)), want: []string{"plain SHA-1 over the content without the secret"}},
		"line break in the secret":  {given: sha1Hex(secret+"\n", body), want: []string{"secret ends with a line break"}},
		"CR LF in the secret":       {given: sha1Hex(secret+"\r\n", body), want: []string{"ends with a line break (CR LF)"}},
		"CR in the secret":          {given: sha1Hex(secret+"\r", body), want: []string{"a carriage return"}},
		"space behind the secret":   {given: sha1Hex(secret+" ", body), want: []string{"ends with a space"}},
		"space before the secret":   {given: sha1Hex(" "+secret, body), want: []string{"begins with a space"}},
		"quotes":                    {given: sha1Hex(`"s3cret"`, body), want: []string{"includes double quotes"}},
		"single quotes":             {given: sha1Hex(`'s3cret'`, body), want: []string{"includes single quotes"}},
		"trimmed":                   {given: sha1Hex(secret, body), secret: secret + "\n", want: []string{"The destination's secret has surrounding white space or quotes"}},
		"not set":                   {given: sha1Hex("", body), want: []string{"secret is empty"}},
		"undefined":                 {given: sha1Hex("undefined", body), want: []string{"the word undefined"}},
		"decoded from base64":       {given: sha1Hex("key", body), secret: "a2V5", want: []string{"decodes the secret as base64"}},
		"decoded from hex":          {given: sha1Hex("key!", body), secret: "6b657921", want: []string{"decodes the secret as hex"}},
		"whsec_ left out":           {given: sha1Hex("a2V5", body), secret: "whsec_a2V5", want: []string{"removes whsec_"}},
		"whsec_ decoded":            {given: sha1Hex("key", body), secret: "whsec_a2V5", want: []string{"decodes the base64 after whsec_"}},
		"line break in the body":    {given: sha1Hex(secret, body+"\n"), want: []string{"adds a line break to the body"}},
		"CR LF in the body":         {given: sha1Hex(secret, body+"\r\n"), want: []string{"adds a line break (CR LF) to the body"}},
		"json.dumps":                {given: sha1Hex(secret, `{"version": 2, "type": "track", "event": "Caf\u00e9 <b>", "url": "/a/b", "properties": {"z": 1, "a": [1, 2]}}`), want: []string{"as Python's json.dumps does"}},
		"json.dumps, not ASCII":     {given: sha1Hex(secret, `{"version": 2, "type": "track", "event": "Café <b>", "url": "/a/b", "properties": {"z": 1, "a": [1, 2]}}`), want: []string{"ensure_ascii=False"}},
		"json.dumps, compact":       {given: sha1Hex(secret, strings.Replace(body, "é", `\u00e9`, 1)), want: []string{"separators=(',', ':')"}},
		"json_encode":               {given: sha1Hex(secret, strings.NewReplacer("é", `\u00e9`, "/", `\/`).Replace(body)), want: []string{"PHP's json_encode does"}},
		"json_encode, not ASCII":    {given: sha1Hex(secret, strings.ReplaceAll(body, "/", `\/`)), want: []string{"JSON_UNESCAPED_UNICODE"}},
		"encoding/json":             {given: sha1Hex(secret, `{"event":"Café \u003cb\u003e","properties":{"a":[1,2],"z":1},"type":"track","url":"/a/b","version":2}`), want: []string{"as Go's encoding/json does"}},
		"json.Encoder":              {given: sha1Hex(secret, `{"event":"Café \u003cb\u003e","properties":{"a":[1,2],"z":1},"type":"track","url":"/a/b","version":2}`+"\n"), want: []string{"as Go's json.Encoder does"}},
		"keys sorted":               {given: sha1Hex(secret, `{"event":"Café <b>","properties":{"a":[1,2],"z":1},"type":"track","url":"/a/b","version":2}`), want: []string{"with its keys sorted."}},
		"in lines": {given: sha1Hex(secret, `{
  "version": 2,
  "type": "track",
  "event": "Café <b>",
  "url": "/a/b",
  "properties": {
    "z": 1,
    "a": [
      1,
      2
    ]
  }
}`), want: []string{"JSON.stringify(body, null, 2)"}},
		"stringified twice":            {given: sha1Hex(secret, `"`+strings.ReplaceAll(body, `"`, `\"`)+`"`), want: []string{"as a quoted string"}},
		"read before":                  {given: sha1Hex(secret, ""), want: []string{"signs an empty body"}},
		"[object Object]":              {given: sha1Hex(secret, "[object Object]"), want: []string{"[object Object]"}},
		"no parser":                    {given: sha1Hex(secret, "{}"), want: []string{"signs {}"}},
		"of the pasted body":           {given: sha1Hex(secret, `{"another":"call"}`), pasted: `{"another":"call"}`, want: []string{"signs the pasted body"}},
		"three mistakes":               {given: inBase64(mac(sha256.New, secret+"\n", body)), want: []string{"uses SHA-256", "writes base64", "ends with a line break"}},
		"id and timestamp before body": {given: sha1Hex(secret, "m1.1700000000."+body), want: []string{"X-Signature covers only the body"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := signcheck.Question{Given: c.given, Secret: secret, Body: []byte(body), Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1700000000"}}}
			if c.secret != "" {
				q.Secret = c.secret
			}
			if c.pasted != "" {
				q.Pasted = []byte(c.pasted)
			}
			a := signcheck.Check(q)
			assert.Equal(t, "X-Signature", a.Header)
			assertMistakes(t, c.want, a)
		})
	}
}

func assertMistakes(t *testing.T, want []string, a signcheck.Answer) {
	t.Helper()
	require.True(t, a.Found, "tried: %q", a.Tried)
	require.Len(t, a.Mistakes, len(want), "%+v", a.Mistakes)
	for i, part := range want {
		assert.Contains(t, a.Mistakes[i].Text, part)
		assert.True(t, strings.HasSuffix(a.Mistakes[i].Text, "."), "a sentence")
		for _, line := range a.Mistakes[i].Fix {
			assert.NotEmpty(t, line.Code)
		}
	}
}

func TestCheckOfStandardSignatures(t *testing.T) {
	const key, text = "a key of twenty-four byt", "plain text"
	whsec := "whsec_" + inBase64([]byte(key))
	content := "m1.1700000000." + body
	sign := func(key, content string) string { return "v1," + inBase64(mac(sha256.New, key, content)) }
	for name, c := range map[string]struct {
		given, secret, previous string
		want                    []string
	}{
		"right":                   {given: sign(key, content), secret: whsec},
		"right, of a text":        {given: sign(text, content), secret: text},
		"right, the second":       {given: sign("other", content) + " " + sign(key, content), secret: whsec},
		"previous":                {given: sign("old", content), secret: whsec, previous: "old", want: []string{"uses the previous secret"}},
		"whsec_ as it stands":     {given: sign(whsec, content), secret: whsec, want: []string{"including whsec_ as the key"}},
		"not decoded":             {given: sign(whsec[6:], content), secret: whsec, want: []string{"without decoding it"}},
		"decoded":                 {given: sign("key", content), secret: "a2V5", want: []string{"decodes the secret as base64, as Standard Webhooks libraries"}},
		"body alone":              {given: sign(key, body), secret: whsec, want: []string{"signs only the body"}},
		"no id":                   {given: sign(key, "1700000000."+body), secret: whsec, want: []string{"without the ID"}},
		"no timestamp":            {given: sign(key, "m1."+body), secret: whsec, want: []string{"without the timestamp"}},
		"other order":             {given: sign(key, "1700000000.m1."+body), secret: whsec, want: []string{"timestamp before the ID"}},
		"no dots":                 {given: sign(key, "m11700000000"+body), secret: whsec, want: []string{"omits the dots"}},
		"milliseconds":            {given: sign(key, "m1.1700000000000."+body), secret: whsec, want: []string{"in milliseconds"}},
		"SHA-1":                   {given: "v1," + inBase64(mac(sha1.New, key, content)), secret: whsec, want: []string{"uses SHA-1. webhook-signature uses HMAC-SHA256"}},
		"hex":                     {given: inHex(mac(sha256.New, key, content)), secret: whsec, want: []string{"writes hex"}},
		"base64 for URLs":         {given: "v1," + base64.URLEncoding.EncodeToString(mac(sha256.New, text, content)), secret: text, want: []string{"URL-safe base64"}},
		"base64 without =":        {given: "v1," + base64.RawStdEncoding.EncodeToString(mac(sha256.New, key, content)), secret: whsec, want: []string{"base64 without padding"}},
		"an earlier attempt":      {given: sign(key, "m1.1699999000."+body), secret: whsec, want: []string{"an earlier attempt"}},
		"a line break":            {given: sign(key, content+"\n"), secret: whsec, want: []string{"adds a line break"}},
		"a line break, as a text": {given: sign(text+"\n", content), secret: text, want: []string{"secret ends with a line break"}},
		"no HMAC":                 {given: inHex(plain(sha256.New, text+content)), secret: text, want: []string{"plain SHA-256", "writes hex"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := signcheck.Check(signcheck.Question{
				Given: c.given, Secret: c.secret, Previous: c.previous, Scheme: webhook.SignatureStandard, Body: []byte(body),
				Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1700000000"}, {ID: "m1", Timestamp: "1699999000"}},
			})
			assert.Equal(t, "webhook-signature", a.Header)
			assertMistakes(t, c.want, a)
		})
	}
}

func TestCheckOfSignaturesWithPrivateKeys(t *testing.T) {
	private := "whsk_" + inBase64([]byte(strings.Repeat("k", 32)))
	at := time.Unix(1_700_000_000, 0)
	q := signcheck.Question{Secret: private, Scheme: webhook.SignatureStandard, Body: []byte(body), Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1700000000"}}}
	var err error
	q.Given, err = webhook.SignStandard(private, "m1", at, []byte(body))
	require.NoError(t, err)
	assertMistakes(t, nil, signcheck.Check(q))
	q.Given, err = webhook.SignStandard(private, "m1", at, []byte(body+"\n"))
	require.NoError(t, err)
	assertMistakes(t, []string{"adds a line break"}, signcheck.Check(q))
}

func TestCheckOfBothSignatures(t *testing.T) {
	q := signcheck.Question{Secret: secret, Scheme: webhook.SignatureBoth, Body: []byte(body), Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1700000000"}}}
	q.Given = sha1Hex(secret, body)
	assert.Equal(t, "X-Signature", signcheck.Check(q).Header)
	q.Given = "v1," + inBase64(mac(sha256.New, secret, "m1.1700000000."+body))
	a := signcheck.Check(q)
	assert.Equal(t, "webhook-signature", a.Header)
	assertMistakes(t, nil, a)
}

func TestCheckReturnsTriedVariants(t *testing.T) {
	for name, q := range map[string]signcheck.Question{
		"another secret":     {Given: sha1Hex("another", body), Secret: secret, Body: []byte(body)},
		"not a signature":    {Given: "hello, world!", Secret: secret, Body: []byte(body)},
		"empty":              {Secret: secret, Body: []byte(body)},
		"only white space":   {Given: "   ", Secret: secret, Scheme: webhook.SignatureStandard, Body: []byte(body)},
		"truncated":          {Given: sha1Hex(secret, body)[:20], Secret: secret, Body: []byte(body)},
		"standard, no stamp": {Given: "v1," + inBase64(mac(sha256.New, secret, "m1.1."+body)), Secret: secret, Scheme: webhook.SignatureStandard, Body: []byte(body)},
		"body is no JSON":    {Given: sha1Hex("another", body), Secret: secret, Pasted: []byte("{"), Previous: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			a := signcheck.Check(q)
			assert.False(t, a.Found)
			assert.Empty(t, a.Mistakes)
			assert.NotEmpty(t, a.Tried)
		})
	}
	a := signcheck.Check(signcheck.Question{Given: sha1Hex(secret, body), Secret: secret})
	assert.False(t, a.Found)
	assert.Empty(t, a.Tried, "there is no body to try anything with")
}

// FuzzCheck checks arbitrary input, because users can paste anything.
func FuzzCheck(f *testing.F) {
	f.Add(sha1Hex(secret, body), secret, body, body)
	f.Add("v1,"+inBase64(mac(sha256.New, secret, "m1.1."+body)), "whsec_a2V5", body, "")
	f.Add("sha1=zz", "whsk_", `{"a":"\ud83d\ude00é"}`, "\x00\xff")
	f.Fuzz(func(t *testing.T, given, secret, body, pasted string) {
		for _, scheme := range []webhook.Signature{webhook.SignatureService, webhook.SignatureStandard, webhook.SignatureBoth} {
			q := signcheck.Question{Given: given, Secret: secret, Scheme: scheme, Body: []byte(body), Pasted: []byte(pasted), Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1700000000"}}}
			signcheck.Check(q)
			if secret == "" || scheme == webhook.SignatureStandard {
				continue
			}
			q.Given = webhook.Sign(secret, []byte(body))
			a := signcheck.Check(q)
			if !a.Found || len(a.Mistakes) > 0 {
				t.Fatalf("the right signature has mistakes: %+v", a)
			}
		}
	})
}

func BenchmarkCheckOfWhatIsUnknown(b *testing.B) {
	large := []byte(`{"type":"track","properties":{"a":"` + strings.Repeat("x", 32<<10) + `"}}`)
	for b.Loop() {
		signcheck.Check(signcheck.Question{
			Given: sha1Hex("another", body), Secret: secret, Previous: "old", Scheme: webhook.SignatureBoth, Body: large, Pasted: large[1:],
			Sent: []signcheck.Stamp{{ID: "m1", Timestamp: "1"}, {ID: "m1", Timestamp: "2"}, {ID: "m1", Timestamp: "3"}, {ID: "m1", Timestamp: "4"}},
		})
	}
}
