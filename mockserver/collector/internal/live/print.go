package live

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A Format is an output format of Print.
type Format int

const (
	Lines Format = iota // a line of text, in color on terminals
	JSON                // one JSON object per line
)

const (
	// printPause is the minimum time between requests.
	printPause = 100 * time.Millisecond
	// printLimit is the maximum number of activities per request.
	printLimit = 500
)

// Print prints activity until ctx ends or writing fails. It starts with the newest activities; first
// is their maximum number. For the format Lines, first is the maximum number of lines. Print fails if
// the first request fails. After that, it retries until the collector is available again.
func Print(ctx context.Context, from Source, first int, out io.Writer, format Format) error {
	paint := format == Lines && CanDraw(out) && os.Getenv("NO_COLOR") == ""
	after, limit, lost := "", first, ""
	if format == Lines {
		limit = printLimit // not every activity is a line
	}
	for ctx.Err() == nil {
		page, err := from.Activity(ctx, after, limit, false)
		wait := printPause
		var lines []byte
		switch {
		case err == nil:
			lines = printed(&page, format, paint)
			if after == "" && format == Lines {
				lines = lastLines(lines, first)
			}
			after, limit, lost = page.Next, printLimit, ""
			if len(page.Activity) == printLimit {
				wait = 0
			}
		case ctx.Err() != nil:
			continue
		case after == "":
			return err
		default:
			wait = errorPause
			if lost != err.Error() && format == Lines {
				lost = err.Error()
				lines = []byte(text.Plain("⋯ "+lost) + "\n")
			}
		}
		if _, err := out.Write(lines); err != nil {
			return err
		}
		_ = pause.For(ctx, wait)
	}
	return nil
}

// printed formats a page.
func printed(page *Page, format Format, paint bool) []byte {
	var b bytes.Buffer
	if format == JSON {
		for _, a := range page.Activity {
			b.Write(text.PlainJSON(a.raw))
			b.WriteByte('\n')
		}
		return b.Bytes()
	}
	for _, l := range linesOf(page) {
		b.WriteString(l.row(wide, false, paint) + "\n")
	}
	return b.Bytes()
}

// lastLines returns the last n lines of text.
func lastLines(text []byte, n int) []byte {
	lines := bytes.SplitAfter(text, []byte("\n")) // the last element is empty
	return bytes.Join(lines[max(0, len(lines)-1-n):], nil)
}
