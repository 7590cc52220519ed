package live

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

const (
	// keptLines is how many lines can be scrolled back to.
	keptLines = 2000
	// frameLines is how many activities a frame brings. More cannot be read.
	frameLines = 40
	// framePause is the least time between two frames. It is longer after one that left
	// lines out, and after an error.
	framePause, crowdedPause, errorPause = 100 * time.Millisecond, 400 * time.Millisecond, time.Second
	// noticeTime is how long the answer to a key is shown.
	noticeTime = 6 * time.Second
)

// A model is what the picture is made of.
type model struct {
	ctx    context.Context // of requests
	config Config

	width, height int
	place         string // of the source, that is followed
	lines         []line
	first         int64  // the number of the first of lines: they are counted from 0
	missed        int64  // how many came while it was paused and there was no room
	lost          string // why the collector cannot be asked

	paused   bool
	stopped  int64 // the number after the newest line when it was paused
	selected int64 // the number of the line, or -1
	filter   string
	typing   bool // the filter is being typed
	help     bool
	panel    string // a text that takes the place of the lines until a key is pressed
	notice   line
	// confirming is the call whose replay the notice asks to confirm, or nil. It ends
	// with the notice.
	confirming *Activity
	noticed    int // counts notices, so that each expires on its own timer
}

// Messages to the model.
type (
	pageMsg   struct{ page Page } // what happened
	lostMsg   struct{ err error } // the collector could not be asked
	askMsg    struct{}            // ask for what happens next
	logMsg    string              // a line of the log
	noticeMsg line                // what came of a key
	panelMsg  struct {            // as noticeMsg, with a text to be shown whole
		notice line
		text   string
	}
	quietMsg int // the notice of that number has been seen
)

func newModel(ctx context.Context, c Config) *model {
	return &model{ctx: ctx, config: c, place: c.After, selected: -1}
}

// append adds a line. The oldest makes room, but not under the eyes of somebody who looks
// at what is there.
func (m *model) append(l line) {
	if len(m.lines) == keptLines {
		if m.held() {
			m.missed++
			return
		}
		m.lines = append(m.lines[:0:0], m.lines[keptLines/4:]...)
		m.first += keptLines / 4
	}
	m.lines = append(m.lines, l)
}

// held reports whether the picture stands still.
func (m *model) held() bool { return m.paused || m.selected >= 0 }

// goOn follows what happens again.
func (m *model) goOn() {
	m.paused, m.selected = false, -1
	if m.missed > 0 {
		n := m.missed
		m.missed = 0
		m.append(moreLine(n))
	}
}

// say shows what came of a key, for a while.
func (m *model) say(l line) tea.Cmd {
	m.notice, m.confirming = l, nil
	m.noticed++
	n := m.noticed
	return tea.Tick(noticeTime, func(time.Time) tea.Msg { return quietMsg(n) })
}

// picked returns the numbers of the lines that the filter picks, oldest first.
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

// line returns the line of a number.
func (m *model) line(n int64) *line { return &m.lines[n-m.first] }

// chosen returns the activity of the selected line; nil where there is none.
func (m *model) chosen() *Activity {
	if m.selected < m.first || m.selected >= m.first+int64(len(m.lines)) {
		return nil
	}
	return m.line(m.selected).activity
}
