package users

import (
	"strings"
	"unicode"
)

// SnakeCase returns a name in snake_case: the key of the trait that an audience
// or a computed trait sets.
//
//   - Words are letters, digits and their marks, in lower case, of any script;
//     whatever is between them becomes one underscore.
//   - An apostrophe within a word is left out.
//   - A capital begins a word after a small letter or a digit ("bigSpender"), and
//     after capitals when a small letter follows it ("HTTPServer").
//   - Digits stay with the letters before and after them ("top10", "1st").
//
// A name without letters and digits gives "". SnakeCase of its own result is
// that result.
func SnakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	gap := false
	for i, r := range runes {
		switch {
		case isApostrophe(r) && i > 0 && i+1 < len(runes) && isWord(runes[i-1]) && isWord(runes[i+1]):
			continue
		case !isWord(r):
			gap = true
			continue
		}
		if b.Len() > 0 && (gap || beginsWord(runes, i)) {
			b.WriteByte('_')
		}
		gap = false
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

func isApostrophe(r rune) bool { return r == '\'' || r == '\u2019' || r == '\u02BC' }

// isCapital reports whether a letter has a small one: some capitals of mathematics
// have none, and would begin a word again in the result.
func isCapital(r rune) bool { return unicode.ToLower(r) != r }

// beginsWord reports whether the capital at i begins a word though nothing is
// between it and the letter before.
func beginsWord(runes []rune, i int) bool {
	before := i - 1
	for before > 0 && unicode.IsMark(runes[before]) {
		before--
	}
	switch {
	case !isCapital(runes[i]) || before < 0 || !isWord(runes[before]):
		return false
	case !isCapital(runes[before]):
		return true
	}
	after := i + 1
	for after < len(runes) && unicode.IsMark(runes[after]) {
		after++
	}
	return after < len(runes) && unicode.IsLower(runes[after])
}
