package analytics

import (
	"encoding/base64"
	"fmt"
	"log"
	"os"
	"path"
	"regexp"
	"strings"
)

// debugName is the name in DEBUG that turns logging on.
const debugName = "analytics"

// debugEnabled reports whether list, the value of the DEBUG environment
// variable, names this package: a comma-separated list, each entry a name in
// which * stands for any characters.
func debugEnabled(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if matched, _ := path.Match(strings.TrimSpace(entry), debugName); matched {
			return true
		}
	}
	return false
}

// logger writes the log lines of a client. It is safe for concurrent use. A panic in
// the caller's writer is recovered.
type logger struct {
	out     *log.Logger
	hook    func(debug bool, line string) // in place of out, unless nil
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
// Authorization header, except for enough of it to distinguish keys. A key that is so
// short that it may occur in a text by chance is removed where it is not a part of a
// word, a host name or a path.
type redactor struct {
	key, basic, mask string
	short            *regexp.Regexp // finds a short key; nil for a long one
}

// longKey is the length of a write key that does not occur in a text by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	r := redactor{key: writeKey, basic: base64.StdEncoding.EncodeToString([]byte(writeKey + ":")), mask: "***"}
	if len(writeKey) >= longKey {
		r.mask = writeKey[:3] + r.mask
		return r
	}
	// A join between word characters makes them one word; a full stop ends a sentence.
	// The user of a URL is no part of its path.
	const other, join, end = `[^\pL\pN/\-_.]`, `[/\-_.]`, `[^\pL\pN]`
	key := regexp.QuoteMeta(writeKey)
	r.short = regexp.MustCompile(`(^|` + other + `)` + key + `($|` + other + `|` + join + `(?:$|` + end + `))|` + key + `(:?@)`)
	return r
}

func (r redactor) redact(text string) string {
	if r.key == "" {
		return text
	}
	text = strings.ReplaceAll(text, r.basic, r.mask)
	if r.short == nil {
		return strings.ReplaceAll(text, r.key, r.mask)
	}
	for range 2 { // what is between two keys is a part of the first match
		text = r.short.ReplaceAllString(text, "${1}"+r.mask+"${2}${3}")
	}
	return text
}

// logf writes one line. Text from outside is an argument, never the format.
func (l *logger) logf(format string, args ...interface{}) {
	l.write(false, format, args...)
}

func (l *logger) write(debug bool, format string, args ...interface{}) {
	defer func() { _ = recover() }() // of the caller's writer
	line := l.secrets.redact(fmt.Sprintf(format, args...))
	if l.hook != nil {
		l.hook(debug, line)
		return
	}
	_ = l.out.Output(3, line)
}

// debugf writes one line if DEBUG or Verbose asked for it.
func (l *logger) debugf(format string, args ...interface{}) {
	if l.verbose {
		l.write(true, format, args...)
	}
}
