package live

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/terminal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A span is a piece of a line in one style.
type span struct {
	text  string
	style terminal.Style
}

// A line is one activity, or a message, as it is shown.
type line struct {
	spans    []span
	activity *Activity // nil: a message
}

// clockForm is how a line writes when something happened, in the zone of the reader.
const clockForm = "15:04:05.000"

// lineOf makes the line of an activity. ok is false for what another line tells of
// already.
func lineOf(a *Activity) (l line, ok bool) {
	l.activity = a
	l.add(a.At.Local().Format(clockForm), terminal.Faint)
	switch a.Kind {
	case "rejected":
		l.add(fmt.Sprintf("%-8s", a.Kind), terminal.Red)
		l.subject(a)
		l.add(a.Code+":", terminal.Red)
		l.add(sentences(a.Message, a.Hint), terminal.Normal)
	case "refused":
		l.add(fmt.Sprintf("%-8s", a.Kind), terminal.Red)
		l.add(a.Title, terminal.Bold)
		l.add(strconv.Itoa(a.Status), terminal.Red)
		if a.Count > 1 {
			l.add("×"+text.GroupDigits(a.Count), terminal.Faint)
		}
		l.add(sentences(a.Message, a.Hint), terminal.Normal)
	case "attempt":
		l.add(fmt.Sprintf("%-8s", a.Type), terminal.Cyan)
		l.subject(a)
		l.attempt(a)
	case "outcome":
		if a.Attempted || a.State == "delivered" {
			return l, false
		}
		l.add(fmt.Sprintf("%-8s", a.Type), terminal.Cyan)
		l.subject(a)
		l.add("→ "+a.Destination, terminal.Normal)
		l.add(a.State, stateStyle(a.State))
		l.add(a.Reason, terminal.Normal)
	default:
		l.add(fmt.Sprintf("%-8s", a.Type), terminal.Cyan)
		l.subject(a)
		if a.NotAsPlanned != "" {
			l.add("not as planned:", terminal.Yellow)
			l.add(a.NotAsPlanned, terminal.Normal)
		}
	}
	return l, true
}

// subject adds what the call is about, and whom.
func (l *line) subject(a *Activity) {
	if a.Kind == "rejected" && a.Type != "" {
		l.add(a.Type, terminal.Cyan)
	}
	l.add(a.Title, terminal.Bold)
	if a.UserID != "" {
		l.add(a.UserID, terminal.Normal)
	} else {
		l.add(a.AnonymousID, terminal.Faint)
	}
}

// attempt adds what a webhook answered.
func (l *line) attempt(a *Activity) {
	style := terminal.Green
	switch a.Verdict {
	case "temporary":
		style = terminal.Yellow
	case "permanent":
		style = terminal.Red
	}
	l.add("→ "+a.Destination, terminal.Normal)
	if a.Status != 0 {
		l.add(strconv.Itoa(a.Status), style)
	} else {
		l.add("no answer", style)
	}
	switch {
	case a.Verdict == "success":
	case a.Answer != "":
		l.add(strconv.Quote(terminal.Plain(a.Answer)), terminal.Normal)
	case a.Status == 0:
		l.add(a.Error, terminal.Normal)
	}
	if a.Attempt > 1 {
		l.add("attempt "+strconv.Itoa(a.Attempt), terminal.Faint)
	}
	l.add(fmt.Sprintf("%.0f ms", a.DurationMS), terminal.Faint)
}

func stateStyle(state string) terminal.Style {
	switch state {
	case "failed":
		return terminal.Red
	case "pending":
		return terminal.Yellow
	}
	return terminal.Faint
}

// messageLine is a line that no activity stands behind.
func messageLine(s string, style terminal.Style) line {
	var l line
	l.add(s, style)
	return l
}

// logLine is an entry of the log: when it was does not matter beside lines that come as it
// does.
func logLine(entry string) line {
	level, message := "", entry
	if _, rest, ok := strings.Cut(entry, " level="); ok && strings.HasPrefix(entry, "time=") {
		level, message, _ = strings.Cut(rest, " ")
	}
	var l line
	l.add("log", terminal.Faint)
	l.add(level, terminal.Yellow)
	l.add(strings.TrimPrefix(message, "msg="), terminal.Faint)
	return l
}

// moreLine says how many lines were left out.
func moreLine(n int64) line {
	return messageLine("⋯ "+text.GroupDigits(n)+" more", terminal.Faint)
}

// add adds a piece, which is made harmless.
func (l *line) add(s string, style terminal.Style) {
	if s != "" {
		l.spans = append(l.spans, span{terminal.Plain(s), style})
	}
}

// plain returns the line without colours.
func (l *line) plain() string { return l.join(func(s span) string { return s.text }) }

// painted returns the line with them.
func (l *line) painted() string { return l.join(func(s span) string { return s.style.Paint(s.text) }) }

func (l *line) join(write func(span) string) string {
	parts := make([]string, len(l.spans))
	for i, s := range l.spans {
		parts[i] = write(s)
	}
	return strings.TrimRight(strings.Join(parts, " "), " ")
}

// sentences writes what is wrong and what would be right.
func sentences(message, hint string) string {
	if hint == "" {
		return message
	}
	return strings.TrimSuffix(message, ".") + ". " + hint
}
