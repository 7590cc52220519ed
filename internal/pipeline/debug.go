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

// entry is what is to be logged.
type entry struct {
	level slog.Level
	// For Config.Slog: a message that is the same each time, and what differs.
	message string
	attrs   []slog.Attr
	// For Config.Logger: a line that has all of it; empty if it is not told.
	line string
}

// logger writes the log of a client. It is safe for concurrent use. A panic in the
// caller's writer or handler is recovered.
type logger struct {
	out     *log.Logger
	slog    *slog.Logger // takes the place of out; nil if it is not set
	verbose bool
	secrets redactor
}

// DefaultLogger writes to standard error.
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
		r.mask = strings.ToValidUTF8(writeKey[:3], "") + r.mask
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

// wants reports whether an entry may be written.
func (l *logger) wants(e entry) bool { return l.slog != nil || e.line != "" }

// log writes an entry. Text from outside is an argument or a value, never a format or
// a message. The handler of a slog.Logger gets ctx.
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

// errorAttr is the attribute of an error. It is a text, since the write key is to be
// removed from it.
func errorAttr(err error) slog.Attr { return slog.String("error", err.Error()) }

// queued returns what Verbose says of a call that was accepted.
func queued(kind string, encoded []byte) entry {
	return entry{
		slog.LevelDebug, "call queued",
		[]slog.Attr{slog.String("type", kind), slog.String("call", string(encoded))},
		fmt.Sprintf("queued %s", encoded),
	}
}
