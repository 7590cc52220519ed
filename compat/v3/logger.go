package analytics

import (
	"context"
	"log"
	"log/slog"
	"strconv"
	"strings"
)

// Logger receives a client's log lines. Its methods must be safe for concurrent use. They
// receive a format and arguments like Printf. The client recovers from a panic in them.
type Logger interface {
	// Logf receives informational lines. Without Config.Verbose, it receives only the end of
	// an outage.
	Logf(format string, args ...interface{})

	// Errorf receives errors: lost calls, the first of consecutive failed attempts, and
	// refused batches.
	Errorf(format string, args ...interface{})
}

// StdLogger returns a Logger that prints to logger, with the prefixes "INFO: " and
// "ERROR: ".
func StdLogger(logger *log.Logger) Logger { return stdLogger{logger} }

type stdLogger struct{ logger *log.Logger }

func (l stdLogger) Logf(format string, args ...interface{}) {
	l.logger.Printf("INFO: "+format, args...)
}

func (l stdLogger) Errorf(format string, args ...interface{}) {
	l.logger.Printf("ERROR: "+format, args...)
}

// handler passes the log of the root package's client to a Logger.
type handler struct {
	slog.Handler // provides WithAttrs and WithGroup, which the client does not call
	logger       Logger
}

// Enabled always returns true, because the client itself checks Config.Verbose.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes a record as one line, with attributes in the format of slog.TextHandler.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		value := a.Value.String()
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return r == ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		line.WriteString(" " + a.Key + "=" + value)
		return true
	})
	if r.Level < slog.LevelWarn {
		h.logger.Logf("%s", line.String())
	} else {
		h.logger.Errorf("%s", line.String())
	}
	return nil
}
