package live

import (
	"io"
	"strings"
	"sync"
)

// A Config configures Show.
type Config struct {
	Source Source
	Title  string // shown in the first row
	URL    string // URL of the inspector, without a trailing slash
	Open   func(url string) error
	Log    *Log // log with entries that are shown as lines; may be nil

	In  io.Reader
	Out io.Writer // a terminal
}

// A Log is a writer for log entries. While Show runs, the terminal UI shows the entries as lines. They
// would otherwise overwrite parts of the UI.
type Log struct {
	out io.Writer  // receives entries while Show does not run
	mu  sync.Mutex // guards to
	to  func(entry string)
}

// NewLog returns a Log that writes to out.
func NewLog(out io.Writer) *Log {
	return &Log{out: out}
}

// divert passes entries to a function. If to is nil, entries are written to out again.
func (l *Log) divert(to func(entry string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

// Write implements io.Writer.
func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	to := l.to
	l.mu.Unlock()
	if to == nil {
		return l.out.Write(b)
	}
	for entry := range strings.Lines(string(b)) {
		to(strings.TrimSuffix(entry, "\n"))
	}
	return len(b), nil
}
