package page

import (
	"fmt"
	"html/template"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/measure"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// pageFuncs are the functions that templates have.
var pageFuncs = template.FuncMap{
	"text":       visible,
	"cut":        text.Cut,
	"iso":        ISOTime,
	"clock":      func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"count":      func(n any) string { return text.GroupDigits(integer(n)) },
	"plural":     func(n any, one, many string) string { return text.Plural(integer(n), one, many) },
	"duration":   ShortDuration,
	"ago":        func(t time.Time) string { return ShortDuration(max(0, time.Since(t))) },
	"age":        func(t time.Time) string { return age(time.Since(t)) },
	"inc":        func(n int) int { return n + 1 },
	"sentence":   Sentence,
	"choices":    choices,
	"capitalize": Capitalize,
	"recent":     recentText,
	"rate":       rate,
	"split":      func(s string) []string { return strings.SplitN(s, " ", 2) },
	"row":        func(name string, s measure.Span) measureRow { return measureRow{name, s} },
	"latency":    func(l measure.Latency) string { return ShortDuration(time.Duration(l)) },
	"callTypes":  func() []string { return CallTypes },
}

// integer returns the value of any integer type.
func integer(n any) int64 {
	if v := reflect.ValueOf(n); v.CanUint() {
		return int64(v.Uint())
	}
	return reflect.ValueOf(n).Int()
}

// CallTypes are the types that people choose from, the commonest first.
var CallTypes = append(slices.Clip(fields.Types), "delete")

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

// ISOTime writes a time as JSON has it, in UTC, to the millisecond.
func ISOTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ShortDuration writes a duration with the precision that people care for.
func ShortDuration(d time.Duration) string {
	if d < 0 {
		return "-" + ShortDuration(-d)
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

// age writes how long ago something was, as assets/html.js does.
func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d d", d/(24*time.Hour))
}

// Capitalize writes the first letter as a capital.
func Capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Sentence makes a sentence of an error's text.
func Sentence(text string) string {
	text = Capitalize(text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// A measureRow is what was counted over a span of time.
type measureRow struct {
	Name string
	Span measure.Span
}

// rate says which part of the attempts of a span succeeded. It says 100 % of all alone.
func rate(s measure.Span) string {
	if s.Attempts == 0 {
		return "–"
	}
	tenths := (s.Attempts - s.Failed) * 1000 / s.Attempts
	if tenths%10 == 0 {
		return fmt.Sprintf("%d %%", tenths/10)
	}
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
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

// choices returns a chooser.
func choices(field string, names []string, chosen string) chooser {
	return chooser{field, names, chosen}
}

// Tabs are snippets of which one is shown at a time.
type Tabs struct {
	ID, Label string
	Snippets  []Snippet
}

// A Snippet is code to copy.
type Snippet struct {
	ID, Name string
	Install  string // what to run first
	Code     string
}
