package live

import (
	"io"
	"strings"
	"sync"
)

// A Config configures Show.
type Config struct {
	Source Source
	After  string // the position to start at
	Title  string // shown in the first row
	URL    string // of the inspector, without a trailing slash
	Open   func(url string) error
	Log    *Log // its entries are shown as lines; may be nil

	In  io.Reader
	Out io.Writer // a terminal
}

// A Log is a log writer. While Show runs, its entries are shown in the terminal UI instead of
// being written over it.
type Log struct {
	out io.Writer  // destination outside Show
	mu  sync.Mutex // guards to
	to  func(entry string)
}

// NewLog returns a Log that writes to out.
func NewLog(out io.Writer) *Log {
	return &Log{out: out}
}

// divert passes entries to a function; nil restores writing.
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
