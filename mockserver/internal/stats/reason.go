package stats

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxCause is the maximum length of a cause in characters.
const maxCause = 300

var (
	// webhookURL matches the URL before each webhook's error.
	webhookURL = regexp.MustCompile(`https?://\S+: `)
	// plainNumber matches the words with digits that are part of a cause: durations and status
	// codes.
	plainNumber = regexp.MustCompile(`^[0-9]{1,4}(ms|s|m|h)?$`)
)

// CauseOf returns the cause of an error message: the message without webhook URLs, and with "…" in place
// of numbers, IDs and addresses. Status codes and durations stay.
func CauseOf(reason string) string {
	reason = webhookURL.ReplaceAllLiteralString(strings.TrimPrefix(reason, sender.WindowPassed), "")
	var b strings.Builder
	for rest := reason; rest != ""; {
		end := wordEnd(rest)
		if end == 0 {
			end = strings.IndexFunc(rest, isWord)
			if end < 0 {
				end = len(rest)
			}
			b.WriteString(rest[:end])
		} else if word := rest[:end]; isCommon(word, b.String()) {
			b.WriteString(word)
		} else {
			b.WriteString("…")
		}
		rest = rest[end:]
	}
	parts := strings.Split(b.String(), "; ")
	return text.Cut(maxCause, strings.Join(slices.Compact(parts), "; "))
}

// isCommon reports whether a word is part of the cause. before is the text before the word.
func isCommon(word, before string) bool {
	if !strings.ContainsFunc(word, unicode.IsDigit) {
		return !strings.Contains(word, "@")
	}
	return plainNumber.MatchString(word) && (word[len(word)-1] > '9' || strings.HasSuffix(before, "responded with "))
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// wordEnd returns the length of the word at the start of s, or 0 if there is none. An ID or an
// address is one word.
func wordEnd(s string) (end int) {
	pending := false // the last character belongs to the word only if a letter or digit follows
	for i, r := range s {
		switch {
		case isWord(r):
			end, pending = i+len(string(r)), false
		case end > 0 && !pending && strings.ContainsRune("-.:@%+", r):
			pending = true
		default:
			return end
		}
	}
	return end
}
