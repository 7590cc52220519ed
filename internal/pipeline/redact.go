package pipeline

import (
	"encoding/base64"
	"regexp"
	"strings"
)

// redactor replaces the write key in strings, also if the key is encoded for Basic
// authentication. It keeps the first characters of a long key, so that readers of a log can
// distinguish keys. A short key may occur in a string by chance, so it is not replaced inside a
// word, a host name or a path.
type redactor struct {
	key, basic, mask string
	short            *regexp.Regexp // matches a short key; nil if the key is long
}

// longKey is the minimum length of a key that does not occur in other text by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	r := redactor{key: writeKey, basic: base64.StdEncoding.EncodeToString([]byte(writeKey + ":")), mask: "***"}
	if len(writeKey) >= longKey {
		r.mask = strings.ToValidUTF8(writeKey[:3], "") + r.mask
		return r
	}
	// The characters / - _ . between two word characters join them to one word. At the end of
	// a word they do not. A key before @ is the user of a URL, so it is always replaced.
	const other, join, end = `[^\pL\pN/\-_.]`, `[/\-_.]`, `[^\pL\pN]`
	key := regexp.QuoteMeta(writeKey)
	r.short = regexp.MustCompile(`(^|` + other + `)` + key + `($|` + other + `|` + join + `(?:$|` + end + `))|` + key + `(:?@)`)
	return r
}

func (r redactor) redact(text string) string {
	if r.key == "" {
		return text
	}
	text = strings.ReplaceAll(text, r.basic, r.mask)
	if r.short == nil {
		return strings.ReplaceAll(text, r.key, r.mask)
	}
	for range 2 { // matches do not overlap, so the first pass may miss every second key
		text = r.short.ReplaceAllString(text, "${1}"+r.mask+"${2}${3}")
	}
	return text
}
