package inspector

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/timeline"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
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
	timeline.Timeline
	ID      string
	IDs     []idLine
	MaxIDs  int
	Entries []entry
	Earlier string // URL of the previous page; empty on the first page
	Later   string // URL of the next page; empty on the last page
	Newest  string // URL of the last page
	Traits  []page.Line
}

// First returns the number of the first entry, from 1. Last returns the number of the last entry.
func (u userPage) First() int { return u.From + 1 }
func (u userPage) Last() int  { return u.From + len(u.Entries) }

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
	Changes *timeline.Changes // trait changes, or nil
	Traits  string            // traits after the call, formatted
	Body    string            // formatted; empty if it is too long
	Bytes   int
	Compare string // URL of the comparison with the previous call of the event
}

// showUser serves a user's timeline. Without an ID, it lists recent users.
func (in *Inspector) showUser(r *http.Request) (page.Response, error) {
	q := r.URL.Query()
	id := q.Get("id")
	if len(id) > maxID {
		return page.Problem(http.StatusBadRequest, "ID too long", "Use an ID of at most "+text.GroupDigits(maxID)+" bytes."), nil
	}
	if since, err := strconv.ParseInt(q.Get("since"), 10, 64); err == nil && page.IsFragment(r) {
		n := timeline.CountSince(in.c.History(), id, since)
		return page.Response{Template: "user", Part: "fresh", Page: page.Page{Body: struct {
			Link string
			New  int
		}{rows.UserLink(id), n}}}, nil
	}
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil {
		from = -1
	}
	if strings.TrimSpace(id) == "" {
		return page.Response{Template: "users", Page: page.Page{Title: "Users", Nav: "users", Body: in.recentUsers()}}.OrPart(r, "recent"), nil
	}
	return page.Response{Template: "user", Page: page.Page{Title: text.Cut(60, id), Nav: "users", Body: in.readUser(id, from)}}, nil
}

// readUser returns a page of a timeline.
func (in *Inspector) readUser(id string, from int) userPage {
	h := in.c.History()
	t := timeline.Read(h, id, from, shownCalls)
	u := userPage{Timeline: t, ID: id, MaxIDs: timeline.MaxIDs, Newest: rows.UserLink(id)}
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
	destinations := in.c.Attached()
	shown := ""                 // user ID of the previous entry
	last := map[string]string{} // ref of the last call of each event
	for n := range t.Entries {
		e := newEntry(h, &t.Entries[n], destinations)
		if whose := e.User; len(t.IDs) > 1 && whose != shown {
			e.Whose, shown = whose, whose
		}
		e.Number = t.From + n + 1
		_, e.Event = rows.EventOf(in.c.Shapes(), t.Entries[n].Call())
		event := e.Type + " " + e.Title
		if before := last[event]; before != "" && e.Kind == "call" {
			e.Compare = compareLink(before, e.Ref)
		}
		last[event] = e.Ref
		u.Entries = append(u.Entries, e)
	}
	return u
}

func callLink(ref string) string { return page.Link("/", "call", ref) }

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
	switch e.Changes = t.Traits; {
	case t.Traits != nil && len(t.Traits.Traits) <= inlineBody:
		e.Traits = page.Indented(t.Traits.Traits)
	case t.Traits == nil && t.Record != nil:
		e.Preview, e.More = previewOf(c)
	}
	return e
}

const (
	// previewMembers limits the fields of a preview.
	previewMembers = 8
	// previewText limits a name or value, in characters.
	previewText = 60
)

// A member is a field of an object.
type member struct {
	Name, Kind, Value string
}

// previewOf returns the first properties or traits of a call. more is the number of properties or
// traits that it omits.
func previewOf(c *tracking.Call) (shown []member, more int) {
	for m := range jsonscan.Members(fields.Find(c.Body, fields.Describing(c.Type))) {
		if len(shown) == previewMembers {
			more++
			continue
		}
		shown = append(shown, member{text.Cut(previewText, string(jsonscan.Unquote(m.Key))), page.KindOf(m.Value), shortValue(m.Value)})
	}
	return shown, more
}

// shortValue returns a truncated JSON value.
func shortValue(value []byte) string {
	if value[0] == '{' || value[0] == '[' {
		var out bytes.Buffer
		if json.Compact(&out, value[:min(len(value), 64<<10)]) == nil {
			value = out.Bytes()
		}
	}
	return text.Cut(previewText, string(value[:min(len(value), 4*previewText)]))
}

const (
	// listedUsers limits the listed users.
	listedUsers = 25
	// recentItems limits the items that are searched for users.
	recentItems = 20_000
)

// recentUsers returns the last accepted call of each recent user, newest first. Synthetic calls do not
// count.
func (in *Inspector) recentUsers() []rows.Row {
	h := in.c.History()
	var items []history.Item
	seen := map[string]bool{}
	n := 0
	h.Scan(history.Newest, func(i *history.Item) bool {
		n++
		id := idOf(i)
		if i.Record != nil && id != "" && !seen[id] && !history.IsSynthetic(i.Call()) {
			seen[id] = true
			items = append(items, i.Snapshot())
		}
		return len(items) < listedUsers && n < recentItems
	})
	destinations := in.c.Attached()
	users := make([]rows.Row, len(items))
	for n := range items {
		users[n] = rows.New(h, &items[n], rows.Filter{}, destinations)
	}
	return users
}
