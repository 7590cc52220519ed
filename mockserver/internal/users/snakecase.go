package users

import (
	"strings"
	"unicode"
)

// SnakeCase converts a name to snake_case. The result is the trait key of an audience or a
// computed trait.
//
//   - Words consist of letters, digits and combining marks, of any script, in lower case.
//     Everything between words becomes one underscore.
//   - An apostrophe within a word is removed.
//   - An upper-case letter begins a word after a lower-case letter or a digit ("bigSpender"),
//     and after upper-case letters if a lower-case letter follows ("HTTPServer").
//   - Digits belong to the letters before and after them ("top10", "1st").
//
// It returns "" for a name without letters and digits. Converting a result again does not change
// it.
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

// isCapital reports whether a letter has a lower-case form. Some mathematical capitals have
// none; if they began words, converting a result again would change it.
func isCapital(r rune) bool { return unicode.ToLower(r) != r }

// beginsWord reports whether the upper-case letter at index i begins a new word without a
// separator before it.
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
