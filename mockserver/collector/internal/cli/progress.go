package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
)

const (
	progressPause = 200 * time.Millisecond // interval on a terminal
	reportPause   = 10 * time.Second       // interval without a terminal
)

// progress shows the progress of an operation. On a terminal, it rewrites one line. Otherwise, it
// prints a line every ten seconds.
type progress struct {
	out      io.Writer
	terminal bool
	last     time.Time
	width    int // width of the current line

	began time.Time // when the operation started
	first int64     // value of the progress when the operation started
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, last: time.Now(), terminal: live.CanDraw(out)}
}

// percent formats a percentage, or returns "" if the total is unknown.
func percent(done, all int64) string {
	if all <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %%)", 100*done/all)
}

// remaining estimates the remaining time from the progress so far. It returns "" during the first two
// seconds.
func (p *progress) remaining(done, all int64) string {
	if p.began.IsZero() || done < p.first {
		p.began, p.first = time.Now(), done
	}
	passed := time.Since(p.began)
	if passed < 2*time.Second || done <= p.first || done >= all {
		return ""
	}
	left := time.Duration(float64(passed) * float64(all-done) / float64(done-p.first))
	return ", about " + left.Round(time.Second).String() + " left"
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

// clear erases the current line.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

// reading returns a reader that shows the progress while list is read. size is -1 if it is unknown.
func (p *progress) reading(list io.Reader, size int64) io.Reader {
	return &readProgress{list: list, size: size, shown: p}
}

type readProgress struct {
	list        io.Reader
	bytes, size int64
	shown       *progress
}

func (r *readProgress) Read(b []byte) (int, error) {
	n, err := r.list.Read(b)
	r.bytes += int64(n)
	r.shown.say(bytesText(r.bytes) + " of the list uploaded" + percent(r.bytes, r.size) + r.shown.remaining(r.bytes, r.size))
	return n, err
}
