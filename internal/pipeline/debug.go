package pipeline

import (
	"context"
	"encoding/base64"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path"
	"regexp"
	"strings"
)

// debugName is the name in DEBUG that enables logging.
const debugName = "analytics"

// debugEnabled reports whether list, the value of the environment variable DEBUG, contains
// debugName. List is a comma-separated list of patterns, in which * matches any characters.
func debugEnabled(list string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if matched, _ := path.Match(strings.TrimSpace(entry), debugName); matched {
			return true
		}
	}
	return false
}

// entry is a log entry.
type entry struct {
	level slog.Level
	// For Config.Slog: a constant message, and its attributes.
	message string
	attrs   []slog.Attr
	// For Config.Logger: the whole line, or empty to log nothing.
	line string
}

// logger writes the log of a client. It is safe for concurrent use. It recovers panics of the
// caller's writer or handler.
type logger struct {
	out     *log.Logger
	slog    *slog.Logger // replaces out, unless it is nil
	verbose bool
	secrets redactor
}

// DefaultLogger returns a logger that writes to standard error.
func DefaultLogger() *log.Logger { return log.New(os.Stderr, "analytics ", log.LstdFlags) }

func newLogger(out *log.Logger, structured *slog.Logger, verbose bool, writeKey string) *logger {
	if out == nil {
		out = DefaultLogger()
	}
	return &logger{
		out:     out,
		slog:    structured,
		verbose: verbose || debugEnabled(os.Getenv("DEBUG")),
		secrets: newRedactor(writeKey),
	}
}

// redactor removes the write key from a string, also as a Basic Authorization header. It
// keeps the first characters of a long key, which distinguish keys. A short key may occur in
// a string by chance, so it is not removed inside of a word, a host name or a path.
type redactor struct {
	key, basic, mask string
	short            *regexp.Regexp // matches a short key; nil for a long one
}

// longKey is the length of a write key that does not occur in a string by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	r := redactor{key: writeKey, basic: base64.StdEncoding.EncodeToString([]byte(writeKey + ":")), mask: "***"}
	if len(writeKey) >= longKey {
		r.mask = strings.ToValidUTF8(writeKey[:3], "") + r.mask
		return r
	}
	// A join between word characters makes them one word; a period ends a sentence. The user
	// of a URL is not part of its path.
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
	for range 2 { // text between two keys belongs to the first match
		text = r.short.ReplaceAllString(text, "${1}"+r.mask+"${2}${3}")
	}
	return text
}

// wants reports whether the logger uses an entry.
func (l *logger) wants(e entry) bool { return l.slog != nil || e.line != "" }

// log writes an entry. External text is an argument or an attribute, never a format or a
// message. A slog.Handler receives ctx.
func (l *logger) log(ctx context.Context, e entry) {
	defer func() { _ = recover() }() // of the caller's writer or handler
	switch {
	case l.slog == nil && e.line != "":
		_ = l.out.Output(2, l.secrets.redact(e.line))
	case l.slog != nil && l.slog.Enabled(ctx, e.level):
		for i, a := range e.attrs {
			if a.Value.Kind() == slog.KindString {
				e.attrs[i].Value = slog.StringValue(l.secrets.redact(a.Value.String()))
			}
		}
		l.slog.LogAttrs(ctx, e.level, e.message, e.attrs...)
	}
}

// errorAttr returns the attribute of an error. It is a string so that the write key can be
// redacted.
func errorAttr(err error) slog.Attr { return slog.String("error", err.Error()) }

// queued returns the entry for an accepted call.
func queued(kind string, encoded []byte) entry {
	return entry{
		slog.LevelDebug, "call queued",
		[]slog.Attr{slog.String("type", kind), slog.String("call", string(encoded))},
		fmt.Sprintf("queued %s", encoded),
	}
}
