package baseline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// normalize replaces the values of a user's calls that differ between runs.
func (u *user) normalize() {
	names := map[string]string{} // placeholders of IDs, by ID
	taken := map[string]int{}    // number of IDs, by placeholder
	for _, c := range u.Calls {
		for _, f := range omitted {
			delete(c, fields.Names[f])
		}
		ids := map[string]string{}
		for field, id := range c.ids() {
			name := normalizeString(id)
			if names[id] == "" && name != id {
				if taken[name]++; taken[name] > 1 {
					end := strings.LastIndexByte(name, '>')
					name = fmt.Sprintf("%s %d%s", name[:end], taken[name], name[end:])
				}
				names[id] = name
			}
			if _, isString := c[field].(string); isString {
				ids[field] = cmp.Or(names[id], id)
			}
		}
		for name, value := range c {
			c[name] = normalizeValue(value, name == fields.Names[fields.Context])
		}
		for field, name := range ids {
			c[field] = name
		}
	}
}

// normalizeValue returns a value with placeholders. It modifies objects and arrays.
func normalizeValue(v any, inContext bool) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = normalizeValue(value, inContext)
		}
	case []any:
		for i, value := range v {
			v[i] = normalizeValue(value, inContext)
		}
	case json.Number:
		return normalizeNumber(v)
	case string:
		if inContext {
			return normalizeVersions(normalizeString(v))
		}
		return normalizeString(v)
	}
	return v
}

// rules are the formats that are recognized in a string by a regular expression.
var rules = []struct {
	format *regexp.Regexp
	name   string
}{
	{regexp.MustCompile(`(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uuid>"},
	{regexp.MustCompile(`(19|20)\d\d-(0\d|1[0-2])-[0-3]\d[Tt ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z|z|UTC|GMT|[+-]\d\d:?\d\d)\b)?`), "<time>"},
	{regexp.MustCompile(`\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun),? (\d\d|[A-Z][a-z]{2}) (\d\d|[A-Z][a-z]{2}) \d{4} \d\d:\d\d:\d\d( ?(Z|UTC|GMT)?([+-]\d{4}\b)?( \([^)]*\))?)`), "<time>"},
	{regexp.MustCompile(`(19|20)\d\d-(0\d|1[0-2])-[0-3]\d`), "<date>"},
	{regexp.MustCompile(`(file://)?(/private)?(/tmp|/var/tmp|/var/folders|[A-Za-z]:\\[^\s"']*\\(Temp|TEMP|tmp))[/\\][^\s"']*`), "<temp path>"},
	{regexp.MustCompile(`(://[^\s/:?#]+):\d+`), "$1:<port>"},
}

// words matches Unix times with a fraction, and the parts of a string that can be an ID.
var words = regexp.MustCompile(`\d{10}\.\d+|\d{13}\.\d+|[0-9A-Za-z]+`)

// normalizeString replaces the parts of a string that differ between runs with placeholders.
func normalizeString(s string) string {
	if wildcards[s] != nil || strings.HasPrefix(s, numberPrefix) {
		return "<string>" // a value of the call must not act as a wildcard or a placeholder
	}
	for _, r := range rules {
		s = r.format.ReplaceAllString(s, r.name)
	}
	return words.ReplaceAllStringFunc(s, func(word string) string {
		if id := formatOf(word); id != "" {
			return "<" + id + ">"
		}
		return word
	})
}

const (
	crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	digits    = "0123456789"
	lower     = "abcdefghijklmnopqrstuvwxyz"
)

// formatOf returns the format of a word: a kind of ID, a unit of Unix time, or "". The letters and
// digits of a random ID must not affect its format.
func formatOf(word string) string {
	consistsOf := func(alphabet string) bool { return strings.Trim(word, alphabet) == "" }
	switch n := len(word); {
	case n >= 16 && consistsOf(digits+"abcdef"), n >= 16 && consistsOf(digits+"ABCDEF"):
		return "hex"
	case n == 26 && strings.HasPrefix(word, "01") && strings.Trim(strings.ToUpper(word), crockford) == "": // since 2004
		return "ulid"
	case n == 27 && word[0] <= '3' && !consistsOf(digits+lower) && !consistsOf(digits+strings.ToUpper(lower)): // until 2107
		return "ksuid"
	case n >= 10 && consistsOf(digits+"."):
		if unit := unitOf(word); unit == "s" || unit == "ms" {
			return "epoch " + unit
		}
	}
	return ""
}

// normalizeVersions replaces versions and IP addresses, except in URLs.
func normalizeVersions(s string) string {
	if _, err := netip.ParseAddr(s); err == nil {
		return "<ip>"
	}
	return versions.ReplaceAllStringFunc(s, func(match string) string {
		if strings.HasPrefix(match, "://") {
			return match
		}
		return "<version>"
	})
}

var versions = regexp.MustCompile(`://[^\s/:?#]+|v?\d+(\.\d+)+([-+][0-9A-Za-z.+-]+)?`)

// numberPrefix begins the placeholder of a number.
const numberPrefix = "<number: "

// normalizeNumber replaces Unix times.
func normalizeNumber(n json.Number) any {
	if unit := unitOf(string(n)); unit != "" {
		return numberPrefix + "epoch " + unit + ">"
	}
	return n
}

// unitOf returns the unit of a Unix time between 2017 and 2036, or "".
func unitOf(number string) string {
	if len(number) < 10 {
		return ""
	}
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return ""
	}
	const from, to = 1.5e9, 2.1e9 // in seconds
	for _, unit := range []string{"s", "ms", "us", "ns"} {
		if x >= from && x < to {
			return unit
		}
		x /= 1000
	}
	return ""
}
