package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	v.WindowTitle = "collector"
	return v
}

// draw draws the screen: a title, the totals, the lines or the panel, a notice and the keys.
func (m *model) draw() string {
	if m.width < 1 || m.height < 3 {
		return ""
	}
	rows := []string{m.title()}
	if m.height >= lowScreen {
		rows = append(rows, m.totals())
	}
	middle := m.middle()
	rows = append(rows, middle[:min(len(middle), m.space())]...)
	last := m.footer()
	for len(rows) < m.height-len(last) {
		rows = append(rows, "")
	}
	rows = append(rows, last...)
	for i := range rows {
		rows[i] = fit(rows[i], m.width)
	}
	return strings.Join(rows, "\n")
}

// space returns the number of rows between the header and the footer.
func (m *model) space() int {
	rows := m.height - 1 - len(m.footer())
	if m.height >= lowScreen {
		rows--
	}
	return max(0, rows)
}

// room returns the number of rows for lines.
func (m *model) room() int { return max(0, m.space()-len(m.details())) }

// lowScreen is the height below which the screen has no totals.
const lowScreen = 8

func (m *model) title() string {
	words := []string{bold.paint(m.config.Title)}
	switch {
	case m.lost != "":
		words = append(words, red.paint("unreachable: "+text.Plain(m.lost)))
	case m.panel != "":
		words = append(words, yellow.paint(fmt.Sprintf("rows %d-%d of %d", m.top+1, min(m.top+m.space(), len(m.rows)), len(m.rows))))
	case m.paused:
		words = append(words, yellow.paint("paused"))
	case m.selected >= 0:
		words = append(words, yellow.paint("Selected (Esc to resume)"))
	default:
		words = append(words, green.paint("live"))
	}
	if m.frozen() {
		if n := m.below() + m.missed; n > 0 {
			words = append(words, yellow.paint(text.GroupDigits(n)+" newer"))
		}
	}
	if m.filter != "" && !m.typing {
		words = append(words, "only "+bold.paint(m.filter))
	}
	return strings.Join(append(words, text.Plain(m.config.URL)), "  ")
}

// totals returns the totals of all destinations, followed by the totals of each destination.
// Destinations with failed calls come first, followed by destinations with pending calls.
func (m *model) totals() string {
	switch {
	case m.destinations == nil: // not known yet
		return ""
	case len(m.destinations) == 0:
		return faint.paint("no destinations")
	}
	var all Destination
	for _, d := range m.destinations {
		all.Delivered += d.Delivered
		all.Failed += d.Failed
		all.Pending += d.Pending
	}
	parts := []string{green.paint(text.GroupDigits(all.Delivered)+" delivered") + all.problems()}
	sorted := slices.SortedStableFunc(slices.Values(m.destinations), func(a, b Destination) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Pending, a.Pending))
	})
	for _, d := range sorted {
		parts = append(parts, bold.paint(text.Plain(d.Name))+" "+text.Plain(d.State)+d.problems())
	}
	return strings.Join(parts, faint.paint("  │  "))
}

// problems returns the numbers of failed and pending calls, with two spaces before each number.
func (d *Destination) problems() (words string) {
	if d.Failed > 0 {
		words += "  " + red.paint(text.GroupDigits(d.Failed)+" failed")
	}
	if d.Pending > 0 {
		words += "  " + yellow.paint(text.GroupDigits(d.Pending)+" pending")
	}
	return words
}

// middle returns the rows between the header and the footer. There may be more rows than space.
func (m *model) middle() []string {
	if m.panel != "" {
		return m.rows[m.top:]
	}
	var rows []string
	for _, n := range m.window() {
		rows = append(rows, m.row(n))
	}
	if len(m.lines) == 0 {
		rows = append(rows, "", faint.paint("  waiting for calls at "+m.config.URL))
	}
	for len(rows) < m.room() {
		rows = append(rows, "")
	}
	return append(rows, m.details()...)
}

// window returns the numbers of the visible lines.
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

// below returns the number of lines below the visible lines.
func (m *model) below() int64 {
	picked, shown := m.picked(), m.window()
	if len(shown) == 0 {
		return 0
	}
	at, _ := slices.BinarySearch(picked, shown[len(shown)-1])
	return int64(len(picked) - at - 1)
}

// row returns the row of a line.
func (m *model) row(n int64) string {
	l := m.line(n)
	if n == m.selected {
		s := fit("▸ "+l.row(fitting(m.width), true, false), m.width)
		return reverse.paint(s + strings.Repeat(" ", max(0, m.width-ansi.StringWidth(s))))
	}
	return "  " + l.row(fitting(m.width), true, true)
}

// mostDetails is the maximum number of rows for details.
const mostDetails = 6

// details returns the selected line in full, with further fields.
func (m *model) details() []string {
	a := m.chosen()
	if a == nil {
		return nil
	}
	rows := []string{faint.paint(strings.Repeat("─", m.width))}
	rows = append(rows, wrap(m.line(m.selected).plain(), m.width)...)
	facts := []string{a.MessageID}
	for _, fact := range []struct{ name, value string }{{"source", a.Source}, {"url", a.URL}, {"", a.Error}} {
		if fact.value != "" {
			facts = append(facts, strings.TrimSpace(fact.name+" "+fact.value))
		}
	}
	for _, row := range wrap(text.Plain(strings.TrimSpace(strings.Join(facts, "  "))), m.width) {
		rows = append(rows, faint.paint(row))
	}
	return rows[:min(len(rows), mostDetails, max(0, m.space()-2))]
}

// footer returns the last rows: the notice, if any, and the keys or the filter.
func (m *model) footer() (rows []string) {
	if len(m.notice.columns) > 0 {
		rows = append(rows, m.notice.row(wide, false, true))
	}
	switch {
	case m.typing:
		return append(rows, "/"+m.filter+"▏"+faint.paint("  Enter: apply  Esc: clear"))
	case m.panel != "":
		return append(rows, m.legend("Esc close", "↑↓ scroll", "PgUp/PgDn/Home/End scroll faster"))
	}
	return append(rows, m.legend("↑↓ select", "Enter details", "? help", "q quit", "r replay", "o open", "c curl", "/ filter", "p pause"))
}

// legend returns the first keys that fit the screen. A space separates a key from its action.
func (m *model) legend(keys ...string) (row string) {
	for i, k := range keys {
		name, does, _ := strings.Cut(k, " ")
		next := bold.paint(name) + " " + faint.paint(does)
		if i > 0 {
			next = row + "  " + next
		}
		if ansi.StringWidth(next) > m.width {
			break
		}
		row = next
	}
	return row
}

const helpText = `↑ ↓       select a line; PgUp, PgDn, Home and End move by a page or to the end
Enter     show the call's status, attempts and payload
r         replay the call to this destination or to all its destinations (asks first)
o         open the call in the inspector
c         copy it as a curl command, and show the command
/         filter lines; Esc clears the filter
p space   pause or resume
Esc       close this text; resume after selecting a line
?         this help
q Ctrl-C  quit

Activity that is too fast to read is counted: ⋯ 412 more.
`
