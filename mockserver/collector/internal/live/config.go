package live

import (
	"io"
	"strings"
	"sync"
)

// A Config says what Show shows.
type Config struct {
	Source Source
	After  string // the place of the source to begin at
	Title  string // stands on top
	URL    string // where the inspector is, without a slash at its end
	Open   func(url string) error
	Log    *Log // shown between the lines; may be nil

	In  io.Reader
	Out io.Writer // a terminal
}

// A Log is where a program logs to while it also shows something: what is logged is shown,
// too, rather than written over it.
type Log struct {
	out io.Writer  // where it goes to otherwise
	mu  sync.Mutex // guards to
	to  func(entry string)
}

// NewLog returns a Log before a file.
func NewLog(out io.Writer) *Log {
	return &Log{out: out}
}

// divert has entries shown from now on, or written again where to is nil.
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
