package page

import (
	"fmt"
	"html/template"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// pageFuncs are the template functions.
var pageFuncs = template.FuncMap{
	"asset":      assetURL,
	"text":       visible,
	"cut":        text.Cut,
	"iso":        isoTime,
	"clock":      func(t time.Time) string { return clock(t.UTC(), time.Now().UTC()) },
	"count":      func(n any) string { return text.GroupDigits(integer(n)) },
	"plural":     func(n any, one, many string) string { return text.Plural(integer(n), one, many) },
	"duration":   ShortDuration,
	"ago":        func(t time.Time) string { return age(time.Since(t)) },
	"sentence":   Sentence,
	"choices":    choices,
	"capitalize": Capitalize,
	"rate":       rate,
	"split":      func(s string) []string { return strings.SplitN(s, " ", 2) },
	"latency":    func(l stats.Latency) string { return ShortDuration(time.Duration(l)) },
	"callTypes":  func() []string { return fields.StoredTypes },
}

// integer converts a value of any integer type.
func integer(n any) int64 {
	if v := reflect.ValueOf(n); v.CanUint() {
		return int64(v.Uint())
	}
	return reflect.ValueOf(n).Int()
}

// A textPart is either Text, or the Code of an invisible or disruptive character.
type textPart struct{ Text, Code string }

// visible splits a string into text and invisible characters.
func visible(s string) []textPart {
	var parts []textPart
	start := 0
	for i, r := range s {
		code, size := "", utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			code, size = fmt.Sprintf("%02X", s[i]), 1
		case r != '\n' && r != '\t' && text.IsInvisible(r):
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

// isoTime formats a time in UTC with milliseconds.
func isoTime(t time.Time) string { return t.UTC().Format(fields.TimeLayout) }

// clock formats a time in the same way as assets/html.js. Times of other days have a date.
func clock(t, now time.Time) string {
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format("15:04:05.000")
	}
	return t.Format("Jan 2 15:04")
}

// ShortDuration formats a duration with reduced precision.
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

// age formats the age of an item in the same way as assets/html.js.
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

// Capitalize converts the first letter to upper case.
func Capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// Sentence converts an error message to a sentence.
func Sentence(text string) string {
	text = Capitalize(text)
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	return text
}

// rate returns the success rate of a span. It is 100 % only without failures.
func rate(s stats.Span) string {
	if s.Attempts == 0 {
		return "–"
	}
	tenths := (s.Attempts - s.Failed) * 1000 / s.Attempts
	if tenths%10 == 0 {
		return fmt.Sprintf("%d %%", tenths/10)
	}
	return fmt.Sprintf("%d.%d %%", tenths/10, tenths%10)
}

// A chooser is a selection list, or a text field if there are no names to select.
type chooser struct {
	Field  string
	Names  []string
	Chosen string
}

func choices(field string, names []string, chosen string) chooser {
	return chooser{field, names, chosen}
}

// Tabs is a group of snippets. A page shows one of them at a time.
type Tabs struct {
	ID, Label string
	Snippets  []Snippet
}

// A Snippet is code to copy.
type Snippet struct {
	ID, Name string
	Install  string // command that installs the library
	Code     string
}
