package generate

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// initialisms contains the words that are written in capitals in Go names.
var initialisms = strings.Fields("API ASCII CPU CSS DNS EOF GUID HTML HTTP HTTPS ID IP JSON QPS RAM RPC SKU SLA SMTP SQL SSH TCP TLS TTL UDP UI UID URI URL UTF8 UUID VM XML")

// words splits a name into words. A word ends at a character that is not a letter or digit, and
// before a capital that follows a lower-case letter.
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

// part returns s in camel case. The result may be empty or start with a digit.
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

// A scope contains the names that are already used.
type scope map[string]bool

// unique returns name, or name with a number if name is already used.
func (s scope) unique(name string) string {
	free := name
	for n := 2; s[free]; n++ {
		free = name + strconv.Itoa(n)
	}
	s[free] = true
	return free
}
