package live

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// press handles a key.
func (m *model) press(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.typing:
		m.typeFilter(name, k.Text)
		return nil
	case m.confirming != nil:
		return m.confirm(name)
	case m.panel != "":
		m.scroll(name)
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.open(helpText)
	case "/":
		m.typing, m.filter = true, ""
	case "p", "space", " ":
		if m.frozen() {
			m.resume()
		} else {
			m.paused, m.stopped = true, m.first+int64(len(m.lines))
		}
	case "esc":
		m.filter = ""
		m.resume()
	case "enter", "r", "o", "c":
		return m.act(name)
	default:
		if by := steps(name, m.room()); by != 0 {
			m.move(by)
		}
	}
	return nil
}

// steps returns the number of rows that a key scrolls down. It is negative for a key that scrolls up, and 0
// for other keys. page is the number of visible rows.
func steps(name string, page int) int {
	const all = 1 << 30
	page = max(1, page)
	return map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -all, "g": -all, "end": all, "G": all,
	}[name]
}

// scroll scrolls the panel. Other keys close it.
func (m *model) scroll(name string) {
	if name == "space" || name == " " {
		name = "pgdown"
	}
	if by := steps(name, m.space()); by != 0 {
		m.top += by
	} else {
		m.open("")
	}
	m.top = max(0, min(m.top, len(m.rows)-m.space()))
}

// typeFilter handles a key while the filter is edited.
func (m *model) typeFilter(name, typed string) {
	switch name {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	default:
		m.filter += text.Plain(typed)
	}
	if !slices.Contains(m.picked(), m.selected) {
		m.selected = -1
	}
}

// move moves the selection down by a number of lines.
func (m *model) move(by int) {
	picked := m.picked()
	if len(picked) == 0 {
		return
	}
	at := slices.Index(picked, m.selected)
	if at < 0 { // the first move selects the newest line
		at = len(picked)
		by = min(by, -1)
	}
	m.selected = picked[min(max(at+by, 0), len(picked)-1)]
}

// act runs a command on the selected line. If no line is selected, it uses the newest line.
func (m *model) act(name string) tea.Cmd {
	if m.selected < 0 {
		m.move(-1)
	}
	a := m.chosen()
	if a == nil {
		return m.say(messageLine("select a call first (↑)", yellow))
	}
	ctx, c := m.ctx, m.config
	failed := func(err error) tea.Msg { return noticeMsg(messageLine(err.Error(), red)) }
	switch name {
	case "enter":
		return func() tea.Msg {
			details, err := c.Source.Details(ctx, *a)
			if err != nil {
				return failed(err)
			}
			return panelMsg{text: details}
		}
	case "r":
		if a.Kind == "rejected" || a.Kind == "refused" {
			return m.say(messageLine("a rejected call cannot be replayed: correct it and send it again", yellow))
		}
		ask := m.say(messageLine("replay to "+cmp.Or(a.Destination, "its destinations")+": Enter confirms, any other key cancels", yellow))
		m.confirming = a
		return ask
	case "o":
		url := c.URL + "/calls/" + a.Ref
		return func() tea.Msg {
			if err := c.Open(url); err != nil {
				return panelMsg{messageLine(err.Error(), yellow), url}
			}
			return noticeMsg(messageLine("opened "+url, green))
		}
	}
	return func() tea.Msg {
		command, err := c.Source.Curl(ctx, *a)
		if err != nil {
			return failed(err)
		}
		return tea.BatchMsg{tea.SetClipboard(command), func() tea.Msg {
			return panelMsg{messageLine("copied to the clipboard, if the terminal supports it", green), command}
		}}
	}
}

// confirm replays the call that awaits confirmation, if the key is Enter.
func (m *model) confirm(name string) tea.Cmd {
	a, ctx, source := *m.confirming, m.ctx, m.config.Source
	if name != "enter" {
		return m.say(messageLine("not replayed", yellow))
	}
	m.say(line{})
	return func() tea.Msg {
		where, err := source.Replay(ctx, a)
		if err == nil {
			return noticeMsg(messageLine("replay queued for "+where, green))
		}
		problem := strings.ReplaceAll(err.Error(), "\n", "; ")
		if where != "" {
			problem = "replay queued for " + where + "; " + problem
		}
		return noticeMsg(messageLine(problem, red))
	}
}
