package generate

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// initialisms are written in capitals, as Go's names have them.
var initialisms = strings.Fields("API ASCII CPU CSS DNS EOF GUID HTML HTTP HTTPS ID IP JSON QPS RAM RPC SKU SLA SMTP SQL SSH TCP TLS TTL UDP UI UID URI URL UTF8 UUID VM XML")

// words cuts a name of the plan into words: at what is no letter and no digit, and where a
// capital follows a small letter.
func words(s string) []string {
	var all []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			all = append(all, string(word))
			word = nil
		}
	}
	for _, r := range s {
		switch {
		case r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end()
			continue
		case unicode.IsUpper(r) && len(word) > 0 && !unicode.IsUpper(word[len(word)-1]):
			end()
		}
		word = append(word, r)
	}
	end()
	return all
}

// part returns s as a part of a Go name: it may begin with a digit, or be empty.
func part(s string) string {
	var b strings.Builder
	for _, w := range words(s) {
		if upper := strings.ToUpper(w); slices.Contains(initialisms, upper) {
			b.WriteString(upper)
			continue
		}
		runes := []rune(w)
		runes[0] = unicode.ToUpper(runes[0])
		b.WriteString(string(runes))
	}
	return b.String()
}

// exported returns s as an exported Go name.
func exported(s string) string {
	name := part(s)
	if first, _ := utf8.DecodeRuneInString(name); unicode.IsUpper(first) {
		return name
	}
	return "X" + name
}

// A scope has the names that are in use.
type scope map[string]bool

// take returns name, with a number if it is in use.
func (s scope) take(name string) string {
	unique := name
	for n := 2; s[unique]; n++ {
		unique = name + strconv.Itoa(n)
	}
	s[unique] = true
	return unique
}
