package analytics

import (
	"log"
	"os"
)

// Logger takes the lines that a client logs. Both methods may be called from many
// goroutines at once, with a format and its arguments as of Printf. A panic in them is
// recovered.
type Logger interface {
	// Logf takes what is of interest to those who look for something. Without
	// Config.Verbose there is none of it.
	Logf(format string, args ...interface{})

	// Errorf takes what went wrong, such as calls that were lost.
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

func defaultLogger() Logger { return StdLogger(log.New(os.Stderr, "analytics ", log.LstdFlags)) }
