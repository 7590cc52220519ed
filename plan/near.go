package plan

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
)

// nearest returns the candidate that is spelled most similarly to word. It accepts differences in
// case, spaces and punctuation, and at most two different letters. It returns "" if there is no
// such candidate, or if there are too many candidates to compare.
func nearest(word string, candidates []string) string {
	if len(word) > 200 || len(candidates) > 5000 {
		return ""
	}
	plain := letters(word)
	best, least := "", 1+min(2, len(plain)/3)
	for _, c := range candidates {
		if c == word || c == "" || len(c) > 200 {
			continue
		}
		other := letters(c)
		if other == plain && plain != "" {
			return c
		}
		if abs(len(other)-len(plain)) >= least {
			continue
		}
		if d := spell.Distance(plain, other); d < least {
			best, least = c, d
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// letters returns the letters and digits of a word in lower case.
func letters(word string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, word)
}

// hintFor suggests the most similar candidate. If there is none, it lists the candidates.
func hintFor(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(candidates) <= 12 {
		return "use one of " + strings.Join(candidates, ", ")
	}
	return ""
}
