package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
)

// reportProblems prints one problem of a configuration per line, and returns a usageError.
func reportProblems(cmd *cobra.Command, err error) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return usageError{fmt.Errorf("--config: %w", err)}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), problems)
	return usageError{errReported}
}

// count formats a number with a noun, which is thing or its plural.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// second formats a time as local time, with a precision of seconds.
func second(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// zoned returns the name of a column that contains local times. It includes the time zone.
func zoned(column string) string {
	zone, _ := time.Now().Zone()
	return column + " " + zone
}

func age(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return max(0, time.Since(since)).Round(time.Second).String() + " ago" // the clock may have been set back
}

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
