package causes

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// maxCause is how many characters of a cause are kept.
const maxCause = 300

var (
	// webhookURL stands before what each webhook answered.
	webhookURL = regexp.MustCompile(`https?://\S+: `)
	// plainNumber matches what has digits and is the same for each call: durations.
	plainNumber = regexp.MustCompile(`^[0-9]{1,4}(ms|s|m|h)?$`)
)

// lastTry begins the reason of a call that was given up when its time was over.
const lastTry = "4 hours have passed since the call was accepted; "

// Of returns a reason as it is common to the calls that failed for it: without the URLs
// of webhooks, and with … in place of numbers, ids and addresses. The status of an
// answer, and durations, stay.
func Of(reason string) string {
	reason = webhookURL.ReplaceAllLiteralString(strings.TrimPrefix(reason, lastTry), "")
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

// isCommon reports whether a word behind a text is the same for each call.
func isCommon(word, before string) bool {
	if !strings.ContainsFunc(word, unicode.IsDigit) {
		return !strings.Contains(word, "@")
	}
	return plainNumber.MatchString(word) && (word[len(word)-1] > '9' || strings.HasSuffix(before, "answered "))
}

// isWord reports whether a character belongs to words.
func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// wordEnd returns where the word ends that a text begins with, or 0. Ids and addresses
// are one word.
func wordEnd(s string) (end int) {
	pending := false // by a character that belongs to a word only before another one of it
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
