package analytics

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
	"time"
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

func defaultLogger() *log.Logger { return log.New(os.Stderr, "analytics ", log.LstdFlags) }

func newLogger(out *log.Logger, structured *slog.Logger, verbose bool, writeKey string) *logger {
	if out == nil {
		out = defaultLogger()
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

// attempted returns what Verbose says of an attempt to send a batch of size bytes.
func attempted(o outcome, size int, took time.Duration) entry {
	e := entry{
		level: slog.LevelDebug, message: "batch delivered",
		attrs: []slog.Attr{slog.Int("bytes", size), slog.Duration("duration", took)},
		line:  fmt.Sprintf("delivered a batch of %d bytes in %v", size, took),
	}
	if o.status != 0 {
		e.attrs = append(e.attrs, slog.Int("status", o.status))
	}
	if o.err != nil {
		e.message, e.attrs = "attempt failed", append(e.attrs, errorAttr(o.err))
		e.line = fmt.Sprintf("an attempt to send a batch of %d bytes failed after %v: %v", size, took, o.err)
	}
	return e
}

// lost returns what is said of calls that were dropped.
func lost(calls int, why *DropError) entry {
	attrs := []slog.Attr{slog.Int("calls", calls), slog.String("reason", string(why.Reason)), slog.Int("attempts", why.Attempts)}
	if why.Status != 0 {
		attrs = append(attrs, slog.Int("status", why.Status))
	}
	if why.Err != nil {
		attrs = append(attrs, errorAttr(why.Err))
	}
	return entry{slog.LevelError, "calls lost", attrs, fmt.Sprintf("lost %s: %s", countCalls(int64(calls)), why.text())}
}

// refusal returns what is said of a batch that is refused, before parts of it are
// sent. With a log.Logger, only calls that are lost are told.
func refusal(b *batch) entry {
	return entry{
		level: slog.LevelWarn, message: "batch refused",
		attrs: []slog.Attr{slog.Int("calls", b.calls), slog.Int("status", b.status), errorAttr(b.err)},
	}
}

// outage is whether the log says that a collector takes no calls at the moment. The zero
// value says that it does.
type outage struct {
	told  bool      // that it takes none
	since time.Time // of told
}

// outageEvery is the least time between two outages that are told, so that a collector
// that fails now and then does not fill the log.
const outageEvery = time.Minute

// changes reports whether the outcome of an attempt begins an outage or ends the one
// that was told.
func (u *outage) changes(o outcome, now time.Time) bool {
	verdict := classify(o.status)
	failed := verdict == retry
	if failed == u.told || !failed && verdict != delivered || failed && !u.since.IsZero() && now.Sub(u.since) < outageEvery {
		return false
	}
	u.told = failed
	if failed {
		u.since = now
	}
	return true
}

// entry returns what is said of an outcome that changes u.
func (u *outage) entry(o outcome) entry {
	if !u.told {
		return entry{level: slog.LevelInfo, message: "collector is taking calls again"}
	}
	return entry{level: slog.LevelWarn, message: "collector is not taking calls", attrs: []slog.Attr{slog.Int("status", o.status), errorAttr(o.err)}}
}
