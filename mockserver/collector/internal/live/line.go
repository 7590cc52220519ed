package live

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A span is text in one style.
type span struct {
	text  string
	style style
}

// A line is an activity or a message. The columns of an activity are its status, time, event,
// user and result. A message has one column.
type line struct {
	columns  [][]span
	activity *Activity // nil for a message
}

// widths contains the widths of all columns except the last one.
type widths [4]int

// wide contains the column widths for output that is not limited to the width of a terminal.
var wide = widths{len("violation"), len(timeFormat), 32, 20}

// fitting returns the column widths for a terminal with a number of columns.
func fitting(columns int) widths {
	w := wide
	rest := columns - w[0] - w[1]
	w[2], w[3] = min(max(rest*3/10, 12), w[2]), min(max(rest*2/10, 8), w[3])
	return w
}

// timeFormat is the format of times. Times are local.
const timeFormat = "15:04:05.000"

// linesOf returns the lines of a page.
func linesOf(page *Page) (lines []line) {
	if page.Skipped > 0 {
		lines = append(lines, moreLine(page.Skipped))
	}
	for i := range page.Activity {
		if l, ok := lineOf(&page.Activity[i]); ok {
			lines = append(lines, l)
		}
	}
	return lines
}

// lineOf returns the line of an activity. It returns false if another line contains the same result.
func lineOf(a *Activity) (l line, ok bool) {
	l.activity = a
	status, style := statusOf(a)
	l.next(status, style)
	l.next(a.At.Local().Format(timeFormat), faint)
	l.next(a.Type, cyan)
	l.add(a.Title, bold)
	if a.UserID != "" {
		l.next(a.UserID, normal)
	} else {
		l.next(a.AnonymousID, faint)
	}
	l.next(a.NotAsPlanned, normal)
	switch a.Kind {
	case "rejected":
		l.add(string(a.Code)+":", red)
		l.add(sentences(a.Message, a.Hint), normal)
	case "refused":
		l.add(strconv.Itoa(a.Status), red)
		if a.Count > 1 {
			l.add("×"+text.GroupDigits(a.Count), faint)
		}
		l.add(sentences(a.Message, a.Hint), normal)
	case "attempt":
		l.attempt(a)
	case "outcome":
		l.add("→ "+a.Destination, normal)
		l.add(a.Reason, normal)
		return l, !a.Attempted && a.State != "delivered"
	}
	return l, true
}

// statusOf returns the status of an activity.
func statusOf(a *Activity) (string, style) {
	switch {
	case a.Kind == "rejected" || a.Kind == "refused":
		return a.Kind, red
	case a.Kind == "attempt" && a.Status == 0:
		return "error", verdictStyle(a.Verdict)
	case a.Kind == "attempt":
		return strconv.Itoa(a.Status), verdictStyle(a.Verdict)
	case a.Kind == "outcome":
		return a.State, stateStyle(a.State)
	case a.NotAsPlanned != "":
		return "violation", yellow
	}
	return "received", faint
}

// attempt adds the result of an attempt.
func (l *line) attempt(a *Activity) {
	l.add("→ "+a.Destination, normal)
	switch {
	case a.Verdict == "success":
	case a.Answer != "":
		l.add(strconv.Quote(text.Plain(a.Answer)), normal)
	case a.Status == 0:
		l.add(a.Error, normal)
	}
	if a.Attempt > 1 {
		l.add("attempt "+strconv.Itoa(a.Attempt), faint)
	}
	l.add(fmt.Sprintf("%.0f ms", a.DurationMS), faint)
}

func verdictStyle(verdict string) style {
	switch verdict {
	case "temporary":
		return yellow
	case "permanent":
		return red
	}
	return green
}

func stateStyle(state string) style {
	switch state {
	case "failed":
		return red
	case "pending":
		return yellow
	}
	return faint
}

// messageLine returns a line with a message.
func messageLine(s string, style style) line {
	var l line
	l.add(s, style)
	return l
}

// logLine returns the line of a log entry, without its time.
func logLine(entry string) line {
	level, message := "", entry
	if _, rest, ok := strings.Cut(entry, " level="); ok && strings.HasPrefix(entry, "time=") {
		level, message, _ = strings.Cut(rest, " ")
	}
	var l line
	l.add("log", faint)
	l.add(level, yellow)
	l.add(strings.TrimPrefix(message, "msg="), faint)
	return l
}

// moreLine returns the line for n omitted activities.
func moreLine(n int64) line {
	return messageLine("⋯ "+text.GroupDigits(n)+" more", faint)
}

// next adds a column that starts with a span.
func (l *line) next(s string, style style) {
	l.columns = append(l.columns, nil)
	l.add(s, style)
}

// add adds a span to the last column.
func (l *line) add(s string, style style) {
	if len(l.columns) == 0 {
		l.columns = make([][]span, 1)
	}
	if s != "" {
		last := &l.columns[len(l.columns)-1]
		*last = append(*last, span{text.Plain(s), style})
	}
}

// plain returns the text of the line, with one space between its spans.
func (l *line) plain() string { return join(slices.Concat(l.columns...), false) }

// row returns the line with aligned columns. If cut is true, longer text is truncated.
func (l *line) row(w widths, cut, paint bool) string {
	var b strings.Builder
	for i, column := range l.columns {
		s := join(column, paint)
		if i < len(l.columns)-1 {
			if cut {
				s = fit(s, w[i])
			}
			s += strings.Repeat(" ", max(0, w[i]-ansi.StringWidth(s))+2)
		}
		b.WriteString(s)
	}
	return strings.TrimRight(b.String(), " ")
}

func join(spans []span, paint bool) string {
	parts := make([]string, len(spans))
	for i, s := range spans {
		parts[i] = s.text
		if paint {
			parts[i] = s.style.paint(s.text)
		}
	}
	return strings.Join(parts, " ")
}

// sentences joins a message and a hint.
func sentences(message, hint string) string {
	if hint == "" {
		return message
	}
	return strings.TrimSuffix(message, ".") + ". " + hint
}
