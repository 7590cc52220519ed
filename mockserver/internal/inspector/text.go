package inspector

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// pageFuncs are the functions that templates have.
var pageFuncs = template.FuncMap{
	"text":       visible,
	"cut":        text.Cut,
	"iso":        isoTime,
	"clock":      func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"count":      text.GroupDigits[int],
	"count64":    text.GroupDigits[int64],
	"plural":     text.Plural[int],
	"plural64":   text.Plural[int64],
	"duration":   shortDuration,
	"ago":        func(t time.Time) string { return shortDuration(max(0, time.Since(t))) },
	"inc":        func(n int) int { return n + 1 },
	"sentence":   sentence,
	"choices":    choices,
	"capitalize": capitalize,
	"recent":     recentText,
	"callTypes":  func() []string { return shownTypes },
}

// shownTypes are the types that people choose from, the commonest first.
var shownTypes = []string{"track", "identify", "page", "screen", "group", "alias", "delete"}

// A textPart is a piece of a text that anyone may have sent: either Text, or a
// character that cannot be seen or that would disturb what is around it, by name.
type textPart struct{ Text, Code string }

// visible splits a text so that a page can show every character of it.
func visible(s string) []textPart {
	var parts []textPart
	start := 0
	for i, r := range s {
		code, size := "", utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			code, size = fmt.Sprintf("%02X", s[i]), 1
		case isInvisible(r):
			code = fmt.Sprintf("U+%04X", r)
		default:
			continue
		}
		if start < i {
			parts = append(parts, textPart{Text: s[start:i]})
		}
		parts = append(parts, textPart{Code: code})
		start = i + size
	}
	if start < len(s) {
		parts = append(parts, textPart{Text: s[start:]})
	}
	return parts
}

// isInvisible reports whether a character draws nothing, but may change how others
// are drawn. Joiners are left alone: scripts and emoji need them.
func isInvisible(r rune) bool {
	switch r {
	case '\n', '\t', '\u200C', '\u200D':
		return false
	case '\u2028', '\u2029', '\u00AD', '\u034F', '\u115F', '\u1160', '\u3164', '\uFFA0':
		return true
	}
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)
}

func isoTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// shortDuration writes a duration with the precision that people care for.
func shortDuration(d time.Duration) string {
	if d < 0 {
		return "-" + shortDuration(-d)
	}
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	text := d.Round(time.Second).String()
	if d >= time.Hour {
		text = d.Round(time.Minute).String()
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// capitalize writes the first letter as a capital.
func capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// sentence makes a sentence of an error's text.
func sentence(text string) string {
	text = capitalize(text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// recentText says how many of the newest attempts at a destination failed.
func recentText(s engine.DestinationStatus) string {
	if s.RecentFailures == s.RecentAttempts {
		return "the last " + text.Plural(s.RecentAttempts, "attempt", "attempts") + " failed"
	}
	return fmt.Sprintf("%d of the last %s failed", s.RecentFailures, text.Plural(s.RecentAttempts, "attempt", "attempts"))
}

// chooser is a field whose value is one of several names, or typed where none is
// known.
type chooser struct {
	Field  string
	Names  []string
	Chosen string
}

func choices(field string, names []string, chosen string) chooser {
	return chooser{field, names, chosen}
}
