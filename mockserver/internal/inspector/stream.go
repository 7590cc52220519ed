package inspector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// frameInterval is the least time between two frames of a stream: what comes
	// faster is put together. It is twice that after a frame that left calls out.
	frameInterval = 250 * time.Millisecond
	// frameRows is how many new rows a frame brings. A list that changes faster
	// cannot be read; the frame says how many it left out.
	frameRows = 30
	// frameChanges is how many changes a frame looks at, newest first.
	frameChanges = 2000
	// frameDeadline is how long a browser may take to read a frame.
	frameDeadline = 20 * time.Second
	// countPause is how long a count of what a filter hides is good for at least.
	countPause = 2 * time.Second
)

// A frame is what a stream sends: what is new since the frame before.
type frame struct {
	Reset   bool       `json:"reset,omitempty"`   // what was shown is no longer so: ask for the list again
	Rows    []frameRow `json:"rows,omitempty"`    // new ones and changed ones, newest first
	Gone    []int64    `json:"gone,omitempty"`    // rows that the filter no longer picks
	Arrived int64      `json:"arrived,omitempty"` // how many came, as far as the filter picks them
	Skipped int64      `json:"skipped,omitempty"` // how many of these are not among Rows
	Counts  *counts    `json:"counts,omitempty"`
	Call    bool       `json:"call,omitempty"` // the call that is open has changed
	Seconds [][]int64  `json:"seconds,omitempty"`
	Now     int64      `json:"now"` // Unix seconds

	id string
}

type frameRow struct {
	Order int64  `json:"order"`
	HTML  string `json:"html"`
}

type counts struct {
	Matched int `json:"matched"`
	Total   int `json:"total"`
}

// A follower makes the frames of one stream. It remembers what the browser
// shows, not what it missed: a browser that is slow is sent the newest, and told
// how many it does not see.
type follower struct {
	in     *Inspector
	filter rows.Filter
	ages   bool   // rows can leave the list as time passes
	open   string // the ref of the call that is open beside the list

	seen       history.Cursor  // where the feed was when the last frame was made
	shown      map[int64]int64 // the rows that the browser has: their orders and changes
	openChange int64           // of the open call
	second     int64           // the newest second sent
	counted    int64           // the feed's change when it was last counted
	countAfter time.Time
}

// serveStream sends a page what is new, until the browser leaves.
func (in *Inspector) serveStream(w http.ResponseWriter, r *http.Request) {
	select {
	case in.streams <- struct{}{}:
		defer func() { <-in.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d pages are already live; close one", maxStreams), http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	page.SecureHeaders(h)
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's is for requests, and would end the stream
	q := r.URL.Query()
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = q.Get("from")
	}
	f := in.newFollower(rows.ReadFilter(q), from)
	f.open = q.Get("call")
	f.openChange, _ = strconv.ParseInt(q.Get("seen"), 10, 64) // nonsense has the page ask for the call once more
	in.follow(r, control, w, f)
}

// follow sends frames until the browser leaves, may not see them any more, or the
// inspector is closed.
func (in *Inspector) follow(r *http.Request, control *http.ResponseController, w http.ResponseWriter, f *follower) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(in.life, cancel)()
	tick := time.NewTicker(time.Second) // the chart moves also when nothing happens
	defer tick.Stop()
	for in.pages.Check(r) == nil { // a login can end, and a token be changed
		changed := in.c.History().Changed()
		var out bytes.Buffer
		frame := f.next()
		frame.write(&out)
		_ = control.SetWriteDeadline(time.Now().Add(frameDeadline))
		if _, err := w.Write(out.Bytes()); err != nil || control.Flush() != nil {
			return
		}
		interval := frameInterval
		if frame.Skipped > 0 {
			interval *= 2
		}
		if pause.For(ctx, interval) != nil {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// write writes the frame as one server-sent event.
func (f frame) write(out *bytes.Buffer) {
	data, _ := json.Marshal(f) // numbers and strings always marshal
	fmt.Fprintf(out, "id: %s\nretry: 1000\ndata: %s\n\n", f.id, data)
}

// newFollower continues from the position of a list or of an earlier stream.
func (in *Inspector) newFollower(filter rows.Filter, from string) *follower {
	f := &follower{in: in, filter: filter, ages: filter.Query.HasRelativeTime(), shown: map[int64]int64{}}
	h := in.c.History()
	destinations := in.c.Attached()
	match := filter.Matcher(destinations)
	seen, continues := history.ParseCursor(from), false
	h.Look(func(feed *history.Feed) { continues = feed.Continues(seen) })
	if !continues {
		return f // the first frame resets the page
	}
	f.seen = seen
	h.Scan(seen.Order+1, func(i *history.Item) bool {
		if match(i) {
			f.shown[i.Order] = min(i.Change, seen.Change) // what has changed since will be sent
		}
		return len(f.shown) < listRows
	})
	return f
}

// next makes the frame of what changed since the last one.
func (f *follower) next() frame {
	destinations := f.in.c.Attached()
	match := f.filter.Matcher(destinations)
	var out frame
	var found findings
	f.in.c.History().Look(func(feed *history.Feed) {
		end := feed.End()
		if !feed.Continues(f.seen) {
			out.Reset = true
			f.seen, f.shown = end, map[int64]int64{}
		}
		found = f.changed(feed, match)
		out.id = end.String()
		out.Gone = found.gone
		out.Arrived = found.arrived + (end.Order - f.seen.Order - found.examined)
		out.Skipped = out.Arrived - found.sent
		f.seen = end
	})
	f.tally(&out)

	for i := range found.items {
		r := rows.New(f.in.c.History(), &found.items[i], f.filter, destinations)
		out.Rows = append(out.Rows, frameRow{r.Order, renderRow(r)})
	}
	f.trim()
	f.count(match, &out)
	out.Call = f.openChanged()
	return out
}

// findings are what the feed has for a frame.
type findings struct {
	items    []history.Item // to be sent, newest first
	gone     []int64
	examined int64 // how many of those that arrived were looked at
	arrived  int64 // how many of these match
	sent     int64 // how many of these are among items
}

// changed looks at the rows that the browser shows, and then for others that have come
// or changed since the last frame. The History's lock is held.
func (f *follower) changed(feed *history.Feed, match func(*history.Item) bool) findings {
	var l findings
	for order, change := range f.shown {
		switch i := feed.Item(order); {
		case i == nil || i.Change <= change && (!f.ages || match(i)):
		case match(i):
			f.send(&l, i)
		default:
			delete(f.shown, order)
			l.gone = append(l.gone, order)
		}
	}
	fresh := f.walk(&l, feed, match)
	slices.SortFunc(fresh, func(a, b *history.Item) int { return cmp.Compare(b.Order, a.Order) })
	oldest := f.oldest()
	for n, i := range fresh {
		send := n < frameRows && i.Order > oldest
		if send {
			f.send(&l, i)
		}
		if i.Order > f.seen.Order {
			l.arrived++
			if send {
				l.sent++
			}
		}
	}
	slices.SortFunc(l.items, func(a, b history.Item) int { return cmp.Compare(b.Order, a.Order) })
	return l
}

// walk looks at the newest changes, and returns what matches and is not shown.
func (f *follower) walk(l *findings, feed *history.Feed, match func(*history.Item) bool) (fresh []*history.Item) {
	n := 0
	for i := range feed.Since(f.seen) {
		if n++; n > frameChanges {
			break
		}
		if i.Order > f.seen.Order {
			l.examined++
		}
		if _, shown := f.shown[i.Order]; !shown && match(i) {
			fresh = append(fresh, i)
		}
	}
	return fresh
}

func (f *follower) send(l *findings, i *history.Item) {
	f.shown[i.Order] = i.Change
	l.items = append(l.items, i.Snapshot())
}

// oldest is the order below which a row has no place in a full list.
func (f *follower) oldest() int64 {
	if len(f.shown) < listRows {
		return 0
	}
	return slices.Sorted(maps.Keys(f.shown))[0]
}

// trim forgets the rows that the browser drops from the end of its list.
func (f *follower) trim() {
	orders := slices.Sorted(maps.Keys(f.shown))
	for _, order := range orders[:max(0, len(orders)-listRows)] {
		delete(f.shown, order)
	}
}

// tally adds the seconds that the chart does not have yet. The newest is sent
// again until it is over.
func (f *follower) tally(out *frame) {
	out.Now = time.Now().Unix()
	for _, s := range f.in.c.History().Seconds(f.second, out.Now) {
		out.Seconds = append(out.Seconds, chartRow(s))
	}
	f.second = out.Now
}

// chartRow returns a second as the chart reads it: its time, and a count for each kind
// of event.
func chartRow(s history.Second) []int64 {
	values := make([]int64, 0, 1+history.TallyKinds)
	values = append(values, s.At)
	for _, n := range s.N {
		values = append(values, int64(n))
	}
	return values
}

// count counts what the filter picks, but not so often that it costs much.
func (f *follower) count(match func(*history.Item) bool, out *frame) {
	start := time.Now()
	if f.counted == f.seen.Change || start.Before(f.countAfter) {
		return
	}
	matched, total := f.in.count(f.filter, match)
	out.Counts = &counts{matched, total}
	f.counted = f.seen.Change
	if !f.filter.Empty() {
		f.countAfter = time.Now().Add(max(countPause, 20*time.Since(start)))
	}
}

func (f *follower) openChanged() bool {
	if f.open == "" {
		return false
	}
	i, ok := f.in.c.History().Item(f.open)
	if !ok {
		return false
	}
	before := f.openChange
	f.openChange = i.Change
	return before != i.Change
}

// renderRow renders the row of a frame as the list does.
func renderRow(r rows.Row) string {
	html, _ := page.Render("calls", "row", r) // it is rendered as part of the list, too
	return html
}

// tallyJSON is what a chart begins with.
func (in *Inspector) tallyJSON() string {
	now := time.Now().Unix()
	seconds := in.c.History().Seconds(0, now)
	rows := make([][]int64, 0, len(seconds))
	for _, s := range seconds {
		rows = append(rows, chartRow(s))
	}
	data, _ := json.Marshal(map[string]any{"now": now, "seconds": rows}) // numbers always marshal
	return string(data)
}
