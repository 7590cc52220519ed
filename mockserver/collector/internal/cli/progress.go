package cli

import (
	"fmt"
	"io"
	"os"
	"time"
)

const (
	progressPause = 200 * time.Millisecond // on a terminal
	reportPause   = 10 * time.Second       // elsewhere
)

// progress shows how far something is: on a terminal on one line, elsewhere on a
// line of its own every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
	width    int // of what stands on the line
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, last: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) say(text string) {
	pause := reportPause
	if p.terminal {
		pause = progressPause
	}
	if time.Since(p.last) < pause {
		return
	}
	p.last = time.Now()
	if !p.terminal {
		fmt.Fprintln(p.out, text)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, text)
	p.width = len(text)
}

// clear leaves the line as it was.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

// reading shows how much of a list was read.
func (p *progress) reading(list io.Reader) io.Reader { return &readProgress{list: list, shown: p} }

type readProgress struct {
	list  io.Reader
	shown *progress
	bytes int64
}

func (r *readProgress) Read(b []byte) (int, error) {
	n, err := r.list.Read(b)
	r.bytes += int64(n)
	r.shown.say(bytesText(r.bytes) + " of the list sent")
	return n, err
}
