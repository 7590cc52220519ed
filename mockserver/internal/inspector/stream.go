package inspector

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

const (
	// frameInterval is the minimum time between two frames of a stream. It is doubled after
	// a frame that omitted rows.
	frameInterval = 250 * time.Millisecond
	// frameRows limits the new rows per frame. A faster list would be unreadable.
	frameRows = 30
	// frameMissing limits the length of Missing. The browser ignores further entries, see mostMissing in live.js.
	frameMissing = 10_000
	// frameChanges limits the changes that a frame examines, newest first.
	frameChanges = 2000
	// countPause is the minimum time between two counts of matching items.
	countPause = 2 * time.Second
)

// A frame is one event of a stream: the changes since the previous frame.
type frame struct {
	Reset   bool       `json:"reset,omitempty"`   // whether the browser must request the list again
	Rows    []frameRow `json:"rows,omitempty"`    // new and changed rows, newest first
	Missing []int64    `json:"missing,omitempty"` // matching items that a frozen list lacks
	Gone    []int64    `json:"gone,omitempty"`    // rows that no longer match
	Arrived int64      `json:"arrived,omitempty"` // number of new matching items
	Skipped int64      `json:"skipped,omitempty"` // number of new matching items in neither Rows nor Missing
	Counts  *counts    `json:"counts,omitempty"`
	Call    bool       `json:"call,omitempty"` // whether the open call has changed
	Seconds [][]int64  `json:"seconds,omitempty"`
	Now     int64      `json:"now"` // Unix seconds

	id string
}

type frameRow struct {
	Order int64  `json:"order"`
	HTML  string `json:"html"`
}

type counts struct {
	HTML   string         `json:"html"`
	Facets map[string]int `json:"facets"` // see rows.Filter.Facets
}

// A follower produces the frames of one stream. It tracks only the rows that the browser has.
// A slow browser receives the newest rows and the number of omitted rows.
type follower struct {
	in     *Inspector
	filter rows.Filter
	ages   bool   // whether the filter has relative times; rows can then stop matching
	frozen bool   // whether the browser keeps its rows and adds no others
	open   string // ref of the open call

	seen       history.Cursor  // position of the feed at the last frame
	shown      map[int64]int64 // rows in the browser, from the order of an item to its last change
	openChange int64           // last change of the open call
	second     int64           // newest second in the charts; the next frame contains it again
	counted    int64           // number of the latest change of the feed at the last count
	countAfter time.Time
}

// serveStream sends live updates until the browser disconnects. The server disconnects a browser that
// does not read; see access.NewHTTPServer.
func (in *Inspector) serveStream(w http.ResponseWriter, r *http.Request) {
	select {
	case in.streams <- struct{}{}:
		defer func() { <-in.streams }()
	default:
		w.Header().Set("Retry-After", "5")
		http.Error(w, fmt.Sprintf("%d pages are already live: close one of them", maxStreams), http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	page.SecureHeaders(h)
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	q := r.URL.Query()
	from := r.Header.Get("Last-Event-ID")
	if from == "" {
		from = q.Get("from")
	}
	f := in.newFollower(rows.ReadFilter(q), from, q.Get("rows"))
	f.frozen = q.Get("held") != ""
	f.open = q.Get("call")
	f.openChange, _ = strconv.ParseInt(q.Get("seen"), 10, 64) // an invalid number makes the page reload the call
	in.follow(w, r, f)
}

// follow sends frames until the browser disconnects, the session expires or the inspector is
// closed.
func (in *Inspector) follow(w http.ResponseWriter, r *http.Request, f *follower) {
	control := http.NewResponseController(w)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(in.life, cancel)()
	tick := time.NewTicker(time.Second) // the charts move even without calls
	defer tick.Stop()
	for in.pages.Check(r) == nil { // the session can expire and the token can change
		changed := in.c.History().Changed()
		frame := f.next()
		if frame.write(w) != nil || control.Flush() != nil {
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

// write writes the frame as a server-sent event.
func (f frame) write(w io.Writer) error {
	data, _ := json.Marshal(f) // numbers and strings can always be marshaled
	_, err := fmt.Fprintf(w, "id: %s\nretry: 1000\ndata: %s\n\n", f.id, data)
	return err
}

// newFollower returns a follower that continues from a position. listed contains the orders of
// the rows in the browser, separated by commas.
func (in *Inspector) newFollower(filter rows.Filter, from, listed string) *follower {
	f := &follower{in: in, filter: filter, ages: filter.Query.HasRelativeTime(), seen: history.ParseCursor(from), shown: map[int64]int64{}}
	for text := range strings.SplitSeq(listed, ",") {
		if order, err := strconv.ParseInt(text, 10, 64); err == nil && len(f.shown) < listRows {
			f.shown[order] = f.seen.Change
		}
	}
	return f
}

// next returns the changes since the last frame.
func (f *follower) next() frame {
	destinations := f.in.c.Attached()
	match := f.filter.Matcher(destinations)
	var out frame
	var items []history.Item
	from, complete := f.seen.Order, false
	f.in.c.History().View(func(feed *history.Feed) {
		end := feed.End()
		if !feed.Continues(f.seen) {
			out.Reset = true
			f.seen, f.shown = end, map[int64]int64{}
		}
		items, complete = f.changed(&out, feed, match)
		out.id = end.String()
		f.seen = end
	})
	if !complete {
		orders := f.matchesAfter(from, match)
		more := max(0, int64(len(orders))-out.Arrived)
		out.Arrived += more
		if f.frozen {
			out.Missing = append(out.Missing, orders...)
		} else {
			out.Skipped += more
		}
	}
	slices.SortFunc(out.Missing, func(a, b int64) int { return cmp.Compare(b, a) })
	out.Missing = slices.Compact(out.Missing)
	out.Missing = out.Missing[:min(len(out.Missing), frameMissing)]
	out.Now = time.Now().Unix()
	out.Seconds = chartRows(f.in.c.History().Seconds(f.second, out.Now), 1)
	f.second = out.Now
	for i := range items {
		r := rows.New(f.in.c.History(), &items[i], f.filter, destinations)
		html, _ := page.Render("calls", "row", r)
		out.Rows = append(out.Rows, frameRow{r.Order, html})
	}
	f.trim()
	f.count(match, &out)
	out.Call = f.openChanged()
	return out
}

// changed adds the changes in the feed to a frame. It returns the new and changed rows, newest first, and
// whether it examined all changes. The caller must hold the lock of the history.
func (f *follower) changed(out *frame, feed *history.Feed, match func(*history.Item) bool) (items []history.Item, complete bool) {
	send := func(i *history.Item) {
		f.shown[i.Order] = i.Change
		items = append(items, i.Snapshot())
	}
	for order, change := range f.shown {
		i := feed.Item(order)
		if i == nil || i.Change <= change && (!f.ages || f.frozen || match(i)) {
			continue
		}
		matches := match(i)
		if !matches {
			delete(f.shown, order)
			out.Gone = append(out.Gone, order)
		}
		if matches || f.frozen {
			send(i)
		}
	}
	fresh, complete := f.walk(feed, match)
	oldest := f.oldest()
	for n, i := range fresh {
		listed := i.Order > oldest && (f.frozen || n < frameRows)
		switch {
		case !listed:
		case f.frozen:
			out.Missing = append(out.Missing, i.Order)
		default:
			send(i)
		}
		if i.Order > f.seen.Order {
			out.Arrived++
			if !listed {
				out.Skipped++
			}
		}
	}
	slices.SortFunc(items, func(a, b history.Item) int { return cmp.Compare(b.Order, a.Order) })
	return items, complete
}

// walk returns the newest changed items that match the filter and are not in the browser, newest first. It
// examines at most frameChanges items; complete reports whether it examined all changes.
func (f *follower) walk(feed *history.Feed, match func(*history.Item) bool) (fresh []*history.Item, complete bool) {
	n := 0
	for i := range feed.Since(f.seen) {
		if n++; n > frameChanges {
			break
		}
		if _, shown := f.shown[i.Order]; !shown && match(i) {
			fresh = append(fresh, i)
		}
	}
	slices.SortFunc(fresh, func(a, b *history.Item) int { return cmp.Compare(b.Order, a.Order) })
	return fresh, n <= frameChanges
}

// matchesAfter returns the orders of the matching items after an order, up to the position of the follower.
func (f *follower) matchesAfter(order int64, match func(*history.Item) bool) (orders []int64) {
	f.in.c.History().Scan(f.seen.Order+1, func(i *history.Item) bool {
		if i.Order > order && match(i) {
			orders = append(orders, i.Order)
		}
		return i.Order > order
	})
	return orders
}

// oldest returns the order below which a row does not fit into the list.
func (f *follower) oldest() int64 {
	if len(f.shown) < listRows {
		return 0
	}
	return slices.Sorted(maps.Keys(f.shown))[0]
}

// trim removes rows that the browser drops from the end of its list.
func (f *follower) trim() {
	orders := slices.Sorted(maps.Keys(f.shown))
	for _, order := range orders[:max(0, len(orders)-listRows)] {
		delete(f.shown, order)
	}
}

// count adds the number of matching items, at a limited rate.
func (f *follower) count(match func(*history.Item) bool, out *frame) {
	start := time.Now()
	if f.counted == f.seen.Change && !f.ages || start.Before(f.countAfter) {
		return
	}
	counted := f.in.count(f.filter, match)
	out.Counts = &counted
	f.counted = f.seen.Change
	f.countAfter = time.Now().Add(max(countPause, 20*time.Since(start)))
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
