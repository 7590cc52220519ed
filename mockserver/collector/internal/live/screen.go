package live

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/terminal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	v.WindowTitle = "collector"
	return v
}

// draw draws the picture: a line that says what it is, the lines, and one for keys.
func (m *model) draw() string {
	if m.width < 1 || m.height < 3 {
		return ""
	}
	rows := append([]string{m.top()}, m.middle()...)
	for len(rows) < m.height-1 {
		rows = append(rows, "")
	}
	rows = append(rows, m.bottom())
	for i := range rows {
		rows[i] = terminal.Fit(rows[i], m.width)
	}
	return strings.Join(rows, "\n")
}

// room is for how many lines there is room.
func (m *model) room() int { return max(1, m.height-2-len(m.details())) }

func (m *model) top() string {
	words := []string{terminal.Bold.Paint(m.config.Title), terminal.Plain(m.config.URL)}
	switch {
	case m.lost != "":
		words = append(words, terminal.Red.Paint("not reached: "+terminal.Plain(m.lost)))
	case m.paused:
		words = append(words, terminal.Yellow.Paint("paused"))
	case m.selected >= 0:
		words = append(words, terminal.Yellow.Paint("selected: Esc goes on"))
	default:
		words = append(words, terminal.Green.Paint("live"))
	}
	if m.held() {
		if n := m.below() + m.missed; n > 0 {
			words = append(words, terminal.Yellow.Paint(text.GroupDigits(n)+" newer"))
		}
	}
	if m.filter != "" && !m.typing {
		words = append(words, "only "+terminal.Bold.Paint(m.filter))
	}
	return strings.Join(words, "  ")
}

// middle returns what stands between the first line and the last.
func (m *model) middle() []string {
	switch {
	case m.help:
		return m.helpText()
	case m.panel != "":
		rows := []string{""}
		for row := range strings.Lines(m.panel) {
			rows = append(rows, terminal.Wrap(terminal.Plain(strings.TrimSuffix(row, "\n")), m.width)...)
		}
		return rows[:min(len(rows), m.height-2)]
	}
	var rows []string
	for _, n := range m.window() {
		rows = append(rows, m.row(n))
	}
	if len(m.lines) == 0 {
		rows = append(rows, "", terminal.Faint.Paint("  waiting for calls at "+m.config.URL))
	}
	for len(rows) < m.room() {
		rows = append(rows, "")
	}
	return append(rows, m.details()...)
}

// window returns the numbers of the lines that are shown.
func (m *model) window() []int64 {
	picked := m.picked()
	end := len(picked)
	switch {
	case m.selected >= 0:
		at, _ := slices.BinarySearch(picked, m.selected)
		end = min(len(picked), max(at+1+m.room()/2, m.room()))
	case m.paused:
		end, _ = slices.BinarySearch(picked, m.stopped)
	}
	return picked[max(0, end-m.room()):end]
}

// below is how many lines came after those that are shown.
func (m *model) below() int64 {
	picked, shown := m.picked(), m.window()
	if len(shown) == 0 {
		return 0
	}
	at, _ := slices.BinarySearch(picked, shown[len(shown)-1])
	return int64(len(picked) - at - 1)
}

// row draws a line of the list.
func (m *model) row(n int64) string {
	l := m.line(n)
	if n == m.selected {
		s := terminal.Fit("▸ "+l.plain(), m.width)
		return terminal.Reverse.Paint(s + strings.Repeat(" ", max(0, m.width-terminal.Width(s))))
	}
	return "  " + l.painted()
}

// mostDetails is how many rows the selected line may take below the list.
const mostDetails = 6

// details are the selected line as a whole, and what does not fit on a line.
func (m *model) details() []string {
	a := m.chosen()
	if a == nil {
		return nil
	}
	rows := []string{terminal.Faint.Paint(strings.Repeat("─", m.width))}
	rows = append(rows, terminal.Wrap(m.line(m.selected).plain(), m.width)...)
	facts := []string{a.MessageID}
	for _, fact := range []struct{ name, value string }{{"source", a.Source}, {"url", a.URL}, {"", a.Error}} {
		if fact.value != "" {
			facts = append(facts, strings.TrimSpace(fact.name+" "+fact.value))
		}
	}
	for _, row := range terminal.Wrap(terminal.Plain(strings.TrimSpace(strings.Join(facts, "  "))), m.width) {
		rows = append(rows, terminal.Faint.Paint(row))
	}
	return rows[:min(len(rows), mostDetails, max(0, m.height-4))]
}

// bottom says what can be done, or what was done.
func (m *model) bottom() string {
	switch {
	case m.typing:
		return "/" + m.filter + "▏" + terminal.Faint.Paint("  Enter keeps it, Esc shows all")
	case len(m.notice.spans) > 0:
		return m.notice.painted()
	case m.help || m.panel != "":
		return terminal.Faint.Paint("any key goes back")
	}
	var words []string
	for _, k := range []struct{ name, does string }{
		{"↑↓", "select"}, {"r", "replay"}, {"o", "open"}, {"c", "curl"}, {"/", "filter"}, {"p", "pause"}, {"?", "help"}, {"q", "end"},
	} {
		words = append(words, terminal.Bold.Paint(k.name)+" "+terminal.Faint.Paint(k.does))
	}
	return strings.Join(words, "  ")
}

// A key is what a key does, as the help tells it.
type key struct{ name, help string }

// keys are those that the help lists.
var keys = []key{
	{"↑ ↓", "select a line; PgUp, PgDn, Home and End go further"},
	{"r", "replay the call to this destination or to all its destinations (asks first)"},
	{"o", "open it in the inspector"},
	{"c", "copy it as a curl command, and show the command"},
	{"/", "show only lines with a text; Esc shows all again"},
	{"p space", "pause, and go on"},
	{"Esc", "go on, after a line was selected"},
	{"?", "this help"},
	{"q Ctrl-C", "end"},
}

func (m *model) helpText() []string {
	rows := []string{""}
	for _, k := range keys {
		rows = append(rows, "  "+terminal.Bold.Paint(fmt.Sprintf("%-9s", k.name))+" "+k.help)
	}
	rows = append(rows, "", "  What comes faster than it can be read is counted: ⋯ 412 more.")
	return rows[:min(len(rows), m.height-2)]
}
