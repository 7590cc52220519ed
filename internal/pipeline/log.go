package pipeline

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path"
	"strings"
)

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
