package live

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

const (
	// keptLines is the maximum number of lines.
	keptLines = 2000
	// frameLines is the maximum number of activities per frame.
	frameLines = 40
	// framePause is the minimum time between frames. It is longer after a frame that omitted
	// lines, and after an error.
	framePause, crowdedPause, errorPause = 100 * time.Millisecond, 400 * time.Millisecond, time.Second
	// noticeTime is how long a notice is shown.
	noticeTime = 6 * time.Second
	// totalsPause is the time between requests for the destinations.
	totalsPause = time.Second
)

// A model is the state of the terminal UI.
type model struct {
	ctx    context.Context // context of requests
	config Config

	width, height int
	place         string // position in the source
	lines         []line
	first         int64  // number of the first element of lines
	missed        int64  // number of lines that were dropped because the paused view was full
	lost          string // error while the collector cannot be reached
	destinations  []Destination

	paused   bool
	stopped  int64 // number of the next line when the view was paused
	selected int64 // number of the selected line, or -1
	filter   string
	typing   bool     // whether the filter is being edited
	panel    string   // text that is shown instead of the lines until it is closed
	rows     []string // rows of the wrapped panel
	top      int      // index of the first visible row
	notice   line
	// confirming is the call that the notice asks to confirm a replay of, or nil. It is reset
	// when the notice changes.
	confirming *Activity
	noticed    int // counts notices, so that each expires on its own timer
}

// Messages to the model.
type (
	pageMsg   struct{ page Page } // new activity
	lostMsg   struct{ err error } // a request failed
	askMsg    struct{}            // send the next request
	totalsMsg []Destination
	countMsg  struct{} // request the destinations
	logMsg    string   // a log entry
	noticeMsg line     // the result of a key
	panelMsg  struct { // a notice, and a text for the panel
		notice line
		text   string
	}
	noticeExpiredMsg int // the notice with this number has expired
)

func newModel(ctx context.Context, c Config) *model {
	return &model{ctx: ctx, config: c, selected: -1}
}

// append adds a line. If there are too many lines, it drops the oldest lines. While the view is
// paused, it drops the new line instead.
func (m *model) append(l line) {
	if len(m.lines) == keptLines {
		if m.frozen() {
			m.missed++
			return
		}
		m.lines = append(m.lines[:0:0], m.lines[keptLines/4:]...)
		m.first += keptLines / 4
	}
	m.lines = append(m.lines, l)
}

// frozen reports whether the view is paused or a line is selected.
func (m *model) frozen() bool { return m.paused || m.selected >= 0 }

// resume follows new lines again.
func (m *model) resume() {
	m.paused, m.selected = false, -1
	if m.missed > 0 {
		n := m.missed
		m.missed = 0
		m.append(moreLine(n))
	}
}

// say shows a notice.
func (m *model) say(l line) tea.Cmd {
	m.notice, m.confirming = l, nil
	m.noticed++
	n := m.noticed
	return tea.Tick(noticeTime, func(time.Time) tea.Msg { return noticeExpiredMsg(n) })
}

// open shows a text in the panel, or closes it if the text is empty.
func (m *model) open(text string) {
	m.panel, m.top = text, 0
	m.wrap()
}

// wrap wraps the panel to the width of the screen.
func (m *model) wrap() {
	m.rows = nil
	for row := range strings.Lines(m.panel) {
		m.rows = append(m.rows, wrap(text.Plain(strings.TrimSuffix(row, "\n")), m.width)...)
	}
	m.top = max(0, min(m.top, len(m.rows)-m.space()))
}

// picked returns the numbers of the lines that match the filter, oldest first.
func (m *model) picked() []int64 {
	all := make([]int64, 0, len(m.lines))
	wanted := strings.ToLower(m.filter)
	for i := range m.lines {
		if wanted == "" || strings.Contains(strings.ToLower(m.lines[i].plain()), wanted) {
			all = append(all, m.first+int64(i))
		}
	}
	return all
}

// line returns the line with a number.
func (m *model) line(n int64) *line { return &m.lines[n-m.first] }

// chosen returns the activity of the selected line, or nil.
func (m *model) chosen() *Activity {
	if m.selected < m.first || m.selected >= m.first+int64(len(m.lines)) {
		return nil
	}
	return m.line(m.selected).activity
}
