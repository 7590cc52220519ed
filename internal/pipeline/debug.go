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

// debugName enables verbose logging if the variable DEBUG contains it.
const debugName = "analytics"

// debugEnabled reports whether list contains debugName. list is the value of the environment
// variable DEBUG: a comma-separated list of patterns, in which * matches any characters.
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
	// message and attrs are for Config.Slog. The message is a constant.
	message string
	attrs   []slog.Attr
	// line is for Config.Logger. If it is empty, Config.Logger does not log the entry.
	line string
}

// logger writes the log of a client. It recovers panics in the caller's writer or handler. It is
// safe for concurrent use.
type logger struct {
	out     *log.Logger
	slog    *slog.Logger // if set, it is used instead of out
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

// redactor replaces the write key in strings, also if the key is encoded for Basic
// authentication. It keeps the first characters of a long key, so that readers of a log can
// distinguish keys. A short key may occur in a string by chance, so it is not replaced inside a
// word, a host name or a path.
type redactor struct {
	key, basic, mask string
	short            *regexp.Regexp // matches a short key; nil if the key is long
}

// longKey is the minimum length of a key that does not occur in other text by chance.
const longKey = 16

func newRedactor(writeKey string) redactor {
	r := redactor{key: writeKey, basic: base64.StdEncoding.EncodeToString([]byte(writeKey + ":")), mask: "***"}
	if len(writeKey) >= longKey {
		r.mask = strings.ToValidUTF8(writeKey[:3], "") + r.mask
		return r
	}
	// The characters / - _ . between two word characters join them to one word. At the end of
	// a word they do not. A key before @ is the user of a URL, so it is always replaced.
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
	for range 2 { // matches do not overlap, so the first pass may miss every second key
		text = r.short.ReplaceAllString(text, "${1}"+r.mask+"${2}${3}")
	}
	return text
}

// wants reports whether the logger uses an entry.
func (l *logger) wants(e entry) bool { return l.slog != nil || e.line != "" }

// log writes an entry. External text is passed as an argument or attribute, never as a format
// or message. A slog.Handler receives ctx.
func (l *logger) log(ctx context.Context, e entry) {
	defer func() { _ = recover() }() // recover panics of the caller's writer or handler
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

// errorAttr returns an attribute for an error. The value is a string, so that the write key
// can be redacted.
func errorAttr(err error) slog.Attr { return slog.String("error", err.Error()) }

// queued returns the entry for an accepted call.
func queued(kind string, encoded []byte) entry {
	return entry{
		slog.LevelDebug, "call queued",
		[]slog.Attr{slog.String("type", kind), slog.String("call", string(encoded))},
		fmt.Sprintf("queued %s", encoded),
	}
}
