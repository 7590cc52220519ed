package pipeline

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
)

// redactor replaces the write key in strings, in plain text and as encoded for Basic
// authentication. A long key is replaced everywhere, also if it is encoded for a URL; its first
// characters are kept so that readers of a log can distinguish keys. A short key may occur in a
// string by chance, so it is not replaced inside a word, a host name or a path.
type redactor struct {
	exact *strings.Replacer // replaces the encoded keys and a long key
	short *regexp.Regexp    // matches a short key; nil if the key is long
}

// longKey is the minimum length of a key that does not occur in other text by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	basic := base64.StdEncoding.EncodeToString([]byte(writeKey + ":"))
	if len(writeKey) >= longKey {
		mask := strings.ToValidUTF8(writeKey[:3], "") + "***"
		return redactor{exact: strings.NewReplacer(basic, mask, writeKey, mask, url.PathEscape(writeKey), mask)}
	}
	// The characters / - _ . between two word characters join them to one word. At the end of
	// a word they do not. A key before @ is the user of a URL, so it is always replaced.
	const other, join, end = `[^\pL\pN/\-_.]`, `[/\-_.]`, `[^\pL\pN]`
	key := regexp.QuoteMeta(writeKey)
	return redactor{
		exact: strings.NewReplacer(basic, "***"),
		short: regexp.MustCompile(`(^|` + other + `)` + key + `($|` + other + `|` + join + `(?:$|` + end + `))|` + key + `(:?@)`),
	}
}

func (r redactor) redact(text string) string {
	text = r.exact.Replace(text)
	if r.short != nil {
		for range 2 { // matches do not overlap, so the first pass may miss every second key
			text = r.short.ReplaceAllString(text, "${1}***${2}${3}")
		}
	}
	return text
}
