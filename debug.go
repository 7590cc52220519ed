package analytics

import (
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"strings"
	"unicode/utf8"
)

// debugName is the name in DEBUG that turns logging on.
const debugName = "analytics"

// debugEnabled reports whether list, the value of the DEBUG environment
// variable, names this package: a comma-separated list, each entry a name in
// which * stands for any characters.
func debugEnabled(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if matchName(strings.TrimSpace(entry), debugName) {
			return true
		}
	}
	return false
}

// matchName matches name against a pattern in which * stands for any
// characters, none included.
func matchName(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == name
	}
	rest, ok := strings.CutPrefix(name, parts[0])
	for _, part := range parts[1:last] {
		if ok { // the first match leaves the most for the other parts
			_, rest, ok = strings.Cut(rest, part)
		}
	}
	return ok && strings.HasSuffix(rest, parts[last])
}

// logger writes the log lines of a client. It is safe for concurrent use. A panic in
// the caller's writer is recovered.
type logger struct {
	out     *log.Logger
	verbose bool
	secrets redactor
}

func defaultLogger() *log.Logger { return log.New(os.Stderr, "analytics ", log.LstdFlags) }

func newLogger(out *log.Logger, verbose bool, writeKey string) *logger {
	if out == nil {
		out = defaultLogger()
	}
	return &logger{
		out:     out,
		verbose: verbose || debugEnabled(os.Getenv("DEBUG")),
		secrets: newRedactor(writeKey),
	}
}

// redactor removes the write key from a text, also in the form of a Basic
// Authorization header, except for enough of it to distinguish keys.
type redactor struct{ key, basic, mask string }

// longKey is the length of a write key that does not occur in a text by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	if writeKey == "" {
		return redactor{}
	}
	mask := "***"
	if len(writeKey) >= longKey {
		mask = writeKey[:3] + mask
	}
	return redactor{writeKey, base64.StdEncoding.EncodeToString([]byte(writeKey + ":")), mask}
}

func (r redactor) redact(text string) string {
	if r.key == "" {
		return text
	}
	text = strings.ReplaceAll(text, r.basic, r.mask)
	if len(r.key) >= longKey {
		return strings.ReplaceAll(text, r.key, r.mask)
	}
	var out strings.Builder
	from := 0 // what precedes it is in out
	for at := 0; ; {
		n := strings.Index(text[at:], r.key)
		if n < 0 {
			return out.String() + text[from:]
		}
		if start, end := at+n, at+n+len(r.key); standsAlone(text[:start], text[end:]) {
			out.WriteString(text[from:start] + r.mask)
			at, from = end, end
		} else {
			at = start + 1
		}
	}
}

// standsAlone reports whether the text between two others is a word of its own, and not
// a part of a word, a host name or a path. The user of a URL is a word of its own.
func standsAlone(before, after string) bool {
	if strings.HasPrefix(after, "@") || strings.HasPrefix(after, ":@") {
		return true
	}
	const joins = "/-_."
	if before != "" && (isWordByte(before[len(before)-1]) || strings.IndexByte(joins, before[len(before)-1]) >= 0) {
		return false
	}
	if len(after) > 1 && strings.IndexByte(joins, after[0]) >= 0 { // a full stop may end a sentence
		return !isWordByte(after[1])
	}
	return after == "" || !isWordByte(after[0])
}

func isWordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// logf writes one line. Text from outside is an argument, never the format.
func (l *logger) logf(format string, args ...interface{}) {
	defer func() { _ = recover() }() // of the caller's writer
	_ = l.out.Output(2, l.secrets.redact(fmt.Sprintf(format, args...)))
}

// debugf writes one line if DEBUG or Verbose asked for it.
func (l *logger) debugf(format string, args ...interface{}) {
	if l.verbose {
		l.logf(format, args...)
	}
}
