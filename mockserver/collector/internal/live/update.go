package live

import (
	"time"

	tea "charm.land/bubbletea/v2"
)

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tea.Batch(m.ask(), m.count()) }

// count returns a command that requests the destinations. If the request fails, the previous
// destinations stay visible, and the error of ask is shown.
func (m *model) count() tea.Cmd {
	ctx, source, known := m.ctx, m.config.Source, m.destinations
	return func() tea.Msg {
		destinations, err := source.Destinations(ctx)
		if err != nil {
			return totalsMsg(known)
		}
		return totalsMsg(destinations)
	}
}

// ask returns a command that requests new activity.
func (m *model) ask() tea.Cmd {
	ctx, source, place := m.ctx, m.config.Source, m.place
	return func() tea.Msg {
		page, err := source.Activity(ctx, place, frameLines, true)
		if err != nil {
			return lostMsg{err}
		}
		return pageMsg{page}
	}
}

// askAfter sends askMsg after a delay.
func askAfter(d time.Duration) tea.Cmd {
	return tea.Tick(d, func(time.Time) tea.Msg { return askMsg{} })
}

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.wrap()
	case tea.KeyPressMsg:
		return m, m.press(msg)
	case tea.PasteMsg:
		if m.typing {
			m.typeFilter("", msg.Content)
		}
	case askMsg:
		return m, m.ask()
	case pageMsg:
		return m, m.take(&msg.page)
	case lostMsg:
		m.lost = msg.err.Error()
		return m, askAfter(errorPause)
	case countMsg:
		return m, m.count()
	case totalsMsg:
		m.destinations = msg
		return m, tea.Tick(totalsPause, func(time.Time) tea.Msg { return countMsg{} })
	case logMsg:
		m.append(logLine(string(msg)))
	case noticeMsg:
		return m, m.say(line(msg))
	case panelMsg:
		m.open(msg.text)
		return m, m.say(msg.notice)
	case noticeExpiredMsg:
		if int(msg) == m.noticed {
			m.notice, m.confirming = line{}, nil
		}
	}
	return m, nil
}

// take adds the activities of a page.
func (m *model) take(page *Page) tea.Cmd {
	m.place, m.lost = page.Next, ""
	pause := framePause
	if page.Skipped > 0 {
		pause = crowdedPause
	}
	for _, l := range linesOf(page) {
		m.append(l)
	}
	return askAfter(pause)
}
