package userpage

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/timeline"
)

const (
	// shownCalls is the number of calls per page.
	shownCalls = 100
	// inlineBody limits a body on the page, in bytes.
	inlineBody = 8 << 10
	// shownGap is the shortest gap between two calls that is shown.
	shownGap = time.Minute
	// maxID limits an ID, in bytes.
	maxID = 1000
)

// A userPage is a page of a user's timeline.
type userPage struct {
	ID      string
	IDs     []idLine
	MoreIDs bool
	MaxIDs  int
	Entries []entry
	Total   int
	Older   int    // number of older calls beyond timeline.MaxCalls
	First   int    // number of the first entry, from 1
	Last    int    // number of the last entry
	Earlier string // URL of the previous page; empty on the first page
	Later   string // URL of the next page; empty on the last page
	Newest  string // URL of the last page

	Traits        []page.Line
	PartialTraits bool

	Kept      int
	Forgotten int64
	End       int64 // see timeline.Timeline
}

// An idLine is an identity of the user.
type idLine struct {
	ID   string
	Link string
	To   string // identity that it is linked to
	Type string // type of the linking call
	At   time.Time
	Call string // URL of the linking call
}

// An entry is a call in the timeline.
type entry struct {
	rows.Row
	Gap     string // time since the previous call; empty if short
	Late    string // delay between the event and its arrival
	Number  int    // position in the timeline, from 1
	Whose   string // user ID; empty if it is the same as in the previous entry
	Event   string // URL of the event page, or empty
	Preview []member
	More    int // number of fields that the preview omits
	Joins   *timeline.Link
	Changes []jsondiff.Line // trait changes
	Further int             // number of further changes
	Equal   int             // number of unchanged traits
	Set     bool
	Traits  string // traits after the call, formatted
	Body    string // formatted; empty if it is too long
	Bytes   int
	Compare string // URL of the comparison with the previous call of the event
}

// ShowUser serves a user's timeline. Without an ID, it lists recent users.
func (p Pages) ShowUser(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	id := q.Get("id")
	if id = strings.TrimSpace(id); len(id) > maxID {
		return page.Problem(http.StatusBadRequest, "ID too long", "Use an ID of at most "+text.GroupDigits(maxID)+" bytes."), nil
	}
	if since, err := strconv.ParseInt(q.Get("since"), 10, 64); err == nil && page.IsFragment(r) {
		n := timeline.CountSince(p.c.History(), id, since)
		return page.Answer{Template: "user", Part: "fresh", Page: page.Page{Body: struct {
			Link string
			New  int
		}{rows.UserLink(id), n}}}, nil
	}
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil {
		from = -1
	}
	if id == "" {
		return page.Answer{Template: "users", Page: page.Page{Title: "Users", Nav: "users", Body: p.recent()}}.OrPart(r, "recent"), nil
	}
	title := text.Cut(60, id)
	return page.Answer{Template: "user", Page: page.Page{Title: title, Nav: "users", Body: p.read(id, from)}}, nil
}

// read returns a page of a timeline.
func (p Pages) read(id string, from int) userPage {
	h := p.c.History()
	t := timeline.Read(h, id, from, shownCalls)
	u := userPage{
		ID: id, MoreIDs: t.MoreIDs, MaxIDs: timeline.MaxIDs, Total: t.Total, Older: t.Older, First: t.From + 1, Last: t.From + len(t.Entries),
		PartialTraits: t.PartialTraits, Kept: t.Retained, Forgotten: t.Expired, End: t.End, Newest: rows.UserLink(id),
	}
	at := func(from int) string { return rows.UserLink(id) + "&from=" + strconv.Itoa(from) }
	if t.From > 0 {
		u.Earlier = at(max(0, t.From-shownCalls))
	}
	if t.From+len(t.Entries) < t.Total {
		u.Later = at(t.From + shownCalls)
	}
	for _, i := range t.IDs {
		line := idLine{ID: i.ID, Link: rows.UserLink(i.ID), To: i.To}
		if i.Via != nil {
			line.Type, line.At, line.Call = i.Via.Type, i.Via.Timestamp, callLink(history.RefOfCall(i.Via.Source, i.Via.MessageID))
		}
		u.IDs = append(u.IDs, line)
	}
	if len(t.Traits) > len("{}") {
		u.Traits = page.LayOut(t.Traits, nil)
	}
	destinations := p.c.Attached()
	shown := ""                 // user ID of the previous entry
	last := map[string]string{} // ref of the last call of each event
	for n := range t.Entries {
		e := newEntry(h, &t.Entries[n], destinations)
		if whose := e.User; len(t.IDs) > 1 && whose != shown {
			e.Whose, shown = whose, whose
		}
		e.Number = t.From + n + 1
		_, e.Event = rows.EventOf(p.c.Shapes(), t.Entries[n].Call())
		event := e.Type + " " + e.Title
		if before := last[event]; before != "" && e.Kind == "call" {
			e.Compare = compareLink(before, e.Ref)
		}
		last[event] = e.Ref
		u.Entries = append(u.Entries, e)
	}
	return u
}

func callLink(ref string) string { return rows.Filter{}.Link("/", "call", ref) }

func newEntry(h *history.History, t *timeline.Entry, destinations []engine.AttachedDestination) entry {
	c := t.Call()
	e := entry{Row: rows.New(h, &t.Item, rows.Filter{}, destinations), Joins: t.Link}
	e.At = t.At
	if t.Gap >= shownGap {
		e.Gap = text.Span(t.Gap)
	}
	if t.Late >= shownGap {
		e.Late = text.Span(t.Late)
	}
	if e.Bytes = len(c.Body); e.Bytes <= inlineBody {
		e.Body = page.Indented(c.Body)
	}
	if t.Record == nil {
		return e
	}
	if t.Traits == nil {
		e.Preview, e.More = previewOf(c)
		return e
	}
	e.Set, e.Changes, e.Further, e.Equal = true, t.Traits.Lines, t.Traits.More, t.Traits.Equal
	if len(t.Traits.Traits) <= inlineBody {
		e.Traits = page.Indented(t.Traits.Traits)
	}
	return e
}
