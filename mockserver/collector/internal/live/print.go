package live

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/terminal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Form is how Print writes an activity.
type Form int

// Forms.
const (
	Lines Form = iota // a line for people, in colours where out is a terminal that has them
	JSON              // a JSON object on a line
)

const (
	// printPause is the least time between two requests for what is new.
	printPause = 100 * time.Millisecond
	// printLimit is how many activities a request asks for.
	printLimit = 500
)

// Print prints what happens, from the newest first activities on, or as lines the newest
// first lines, until ctx ends or out takes no more. A collector that was reached and is gone is asked again until it is back.
func Print(ctx context.Context, from Source, first int, out io.Writer, form Form) error {
	paint := form == Lines && terminal.Colours(out)
	after, limit, lost := "", first, ""
	if form == Lines {
		limit = printLimit // not every activity is a line
	}
	for ctx.Err() == nil {
		page, err := from.Activity(ctx, after, limit, false)
		wait := printPause
		var text []byte
		switch {
		case err == nil:
			text = printed(&page, form, paint)
			if after == "" && form == Lines {
				text = lastLines(text, first)
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
			if lost != err.Error() && form == Lines {
				lost = err.Error()
				text = []byte(terminal.Plain("⋯ "+lost) + "\n")
			}
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		_ = pause.For(ctx, wait)
	}
	return nil
}

// printed returns a page as lines.
func printed(page *Page, form Form, paint bool) []byte {
	var b bytes.Buffer
	write := func(l line) {
		b.WriteString(l.row(wide, false, paint) + "\n")
	}
	if page.Skipped > 0 && form == Lines {
		write(moreLine(page.Skipped))
	}
	for i := range page.Activity {
		a := &page.Activity[i]
		if form == JSON {
			b.Write(terminal.PlainJSON(a.raw))
			b.WriteByte('\n')
		} else if l, ok := lineOf(a); ok {
			write(l)
		}
	}
	return b.Bytes()
}

// lastLines returns the last n lines of a text.
func lastLines(text []byte, n int) []byte {
	lines := bytes.SplitAfter(text, []byte("\n")) // the last is empty
	return bytes.Join(lines[max(0, len(lines)-1-n):], nil)
}
