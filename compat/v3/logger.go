package analytics

import (
	"context"
	"log"
	"log/slog"
	"strconv"
	"strings"
)

// Logger takes the lines that a client logs. Both methods may be called from many
// goroutines at once, with a format and its arguments as of Printf. A panic in them is
// recovered.
type Logger interface {
	// Logf takes what is of interest to those who look for something. Without
	// Config.Verbose that is only the end of an outage.
	Logf(format string, args ...interface{})

	// Errorf takes what went wrong: calls that were lost, the first of a row of failed
	// attempts, and batches that are refused.
	Errorf(format string, args ...interface{})
}

// StdLogger returns a Logger that prints to logger: lines of Logf after "INFO: ", and
// those of Errorf after "ERROR: ".
func StdLogger(logger *log.Logger) Logger { return stdLogger{logger} }

type stdLogger struct{ logger *log.Logger }

func (l stdLogger) Logf(format string, args ...interface{}) {
	l.logger.Printf("INFO: "+format, args...)
}

func (l stdLogger) Errorf(format string, args ...interface{}) {
	l.logger.Printf("ERROR: "+format, args...)
}

// handler passes the log of the root package's client on to a Logger.
type handler struct {
	slog.Handler // WithAttrs and WithGroup, which the client does not use
	logger       Logger
}

// Enabled reports true: the client knows whether its Config is Verbose.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes a record as one line, its attributes as slog.TextHandler does.
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
