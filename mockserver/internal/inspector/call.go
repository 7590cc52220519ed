package inspector

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A callPanel is the view of one item of the feed.
type callPanel struct {
	rows.Row
	Back         string // URL of the list without the panel
	Change       int64
	Message      string // error message of a rejection or refusal
	Hint         string // how to fix the problem
	Status       int    // response status of a refusal
	Place        int    // position of a rejected call in its request, from 1
	Facts        []fact
	Corrections  []correction
	Violations   []tracking.Violation
	Destinations []callDestination
	Attempts     []attemptLine // newest first
	Older        int           // number of attempts that are not shown
	Copies       []copyForm
	Body         []page.Line
	Bytes        int
	Event        string // URL of the event page, or of the list of calls with the same name
	Listed       bool   // whether Event links to the list
	Notice       string // result of the last action
	Failed       bool   // whether Notice is an error
}

// Newest returns the attempts that are listed in full. The others are folded.
func (p *callPanel) Newest() []attemptLine { return p.Attempts[:min(len(p.Attempts), listedAttempts)] }

// Earlier returns the folded attempts.
func (p *callPanel) Earlier() []attemptLine { return p.Attempts[len(p.Newest()):] }

// A fact is a name, a value and an optional link.
type fact struct{ Name, Value, Href string }

// A correction is a change that the collector made to a call, with the reason.
type correction struct{ What, Why string }

// A callDestination is the delivery status of a call at one destination, or the reason why
// the destination does not receive it.
type callDestination struct {
	Name    string
	Look    string // delivery state, see rows.DeliveryState.Look; "apart" if the destination does not receive the call
	Word    string // display text for Look, with the response
	Reason  string
	RetryAt time.Time
	Tries   int
	Delay   string // why a pending call is not being attempted
	Exists  bool   // whether the destination still exists, so that the call can be replayed
	Signs   bool   // whether the destination exists and sends to webhooks, which can be signed
}

const (
	// shownAttempts limits the attempts per destination in a panel.
	shownAttempts = 20
	// listedAttempts limits the attempts in a panel that are not folded.
	listedAttempts = 6
)

// An attemptLine is a request to a webhook.
type attemptLine struct {
	tracking.Attempt
	OK       bool
	Request  []fact
	Sent     string
	Response []fact
	Received string
	Cut      bool // whether the response body is truncated
}

// panel returns the panel for a ref, and false if the ref is unknown.
func (in *Inspector) panel(ref string, filter rows.Filter) (*callPanel, bool) {
	i, ok := in.c.History().Item(ref)
	if !ok {
		return nil, false
	}
	destinations := in.c.Attached()
	p := &callPanel{Row: rows.New(in.c.History(), &i, filter, destinations), Change: i.Change, Back: filter.Link("/")}
	switch {
	case i.Record != nil:
		p.showRecord(i.Record, destinations)
		p.addDelays(in.c.Status())
	case i.Rejection != nil:
		p.showRejection(i.Rejection, i.Read)
	default:
		p.showRefusal(i.Refusal)
	}
	if c := i.Call(); i.Refusal == nil {
		p.Copies = copiesOf(p.Ref, c)
		if i.Record != nil && p.Copies != nil {
			p.Copies = append(p.Copies, p.signedCopies(destinations)...)
		}
		var name string
		name, p.Event = rows.EventOf(in.c.Shapes(), c)
		if p.Listed = p.Event == "" && name != ""; p.Listed {
			p.Event = rows.By("event", name).Link("/")
		}
	}
	return p, true
}

func (p *callPanel) showRecord(r *tracking.Record, destinations []engine.AttachedDestination) {
	c := &r.Call
	p.Title, p.Facts = history.TitleOf(c), factsOf(c)
	if r.RetryCount > 0 {
		p.Facts = append(p.Facts, fact{Name: "X-Retry-Count", Value: strconv.Itoa(r.RetryCount)})
	}
	p.Corrections, p.Violations = correctionsOf(r), c.Violations
	p.Body, p.Bytes = page.LayOut(c.Body, markCorrected), len(c.Body)
	for _, s := range rows.StatesOf(r, destinations) {
		at := slices.IndexFunc(destinations, func(d engine.AttachedDestination) bool { return d.Name == s.Destination })
		p.Destinations = append(p.Destinations, callDestination{
			Name: s.Destination, Look: s.Look(), Word: s.Look() + s.Response(r), Reason: s.Reason, RetryAt: s.RetryAt, Tries: s.Attempt,
			Exists: at >= 0, Signs: at >= 0 && !isRelay(&destinations[at].Destination),
		})
	}
	p.addSkipped(c, destinations)
	p.addAttempts(r.Attempts)
}

// addAttempts adds the newest attempts at each destination.
func (p *callPanel) addAttempts(all []tracking.Attempt) {
	byTime := make([]*tracking.Attempt, len(all))
	for i := range all {
		byTime[i] = &all[i]
	}
	slices.SortStableFunc(byTime, func(a, b *tracking.Attempt) int { return b.Time.Compare(a.Time) })
	shown := map[string]int{} // by destination
	for _, a := range byTime {
		if shown[a.Destination]++; shown[a.Destination] > shownAttempts {
			p.Older++
			continue
		}
		p.Attempts = append(p.Attempts, newAttemptLine(*a))
	}
}

// addDelays sets the reasons why destinations do not attempt the call.
func (p *callPanel) addDelays(states []engine.DestinationStatus) {
	for i := range p.Destinations {
		d := &p.Destinations[i]
		if d.Look != "pending" && d.Look != "retrying" {
			continue
		}
		for _, s := range states {
			switch {
			case s.Destination != d.Name:
			case !s.GoneSince.IsZero():
				d.Delay = "The destination has stopped: its webhooks responded with 410."
			case s.Paused:
				d.Delay = "The destination is paused."
			case !s.HeldUntil.IsZero():
				d.Delay = "The receiver’s last response requires a pause. Delivery continues after it."
			case s.Down:
				d.Delay = "The destination is down. Calls are retried at a lower rate until one succeeds."
			}
		}
	}
}

// addSkipped adds the destinations that do not receive the call, with the reasons.
func (p *callPanel) addSkipped(c *tracking.Call, destinations []engine.AttachedDestination) {
	for _, d := range destinations {
		if slices.ContainsFunc(p.Destinations, func(known callDestination) bool { return known.Name == d.Name }) {
			continue
		}
		deliver, reason := d.Routes(c)
		if deliver {
			reason = "the destination was added after the call arrived"
		}
		p.Destinations = append(p.Destinations, callDestination{Name: d.Name, Look: "apart", Word: "not sent", Reason: reason})
	}
}

func newAttemptLine(a tracking.Attempt) attemptLine {
	return attemptLine{
		Attempt: a, OK: a.Verdict == webhook.Success,
		Request: headerFacts(a.RequestHeader), Sent: string(a.RequestBody),
		Response: headerFacts(a.ResponseHeader), Received: string(a.ResponseBody),
		Cut: len(a.ResponseBody) == sender.KeptBody,
	}
}

func headerFacts(h http.Header) []fact {
	var facts []fact
	h = engine.HideHeader(h)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		facts = append(facts, fact{Name: name, Value: strings.Join(h[name], ", ")})
	}
	return facts
}

// factsOf returns the identifiers of a call.
func factsOf(c *tracking.Call) []fact {
	return withValues(
		fact{"userId", c.UserID, rows.UserLink(c.UserID)},
		fact{"anonymousId", c.AnonymousID, rows.UserLink(c.AnonymousID)},
		fact{"groupId", c.GroupID, rows.By("user", c.GroupID).Link("/")},
		fact{"previousId", c.PreviousID, rows.UserLink(c.PreviousID)},
		fact{"messageId", c.ID, ""},
		fact{"source", c.Source, rows.By("source", c.Source).Link("/")},
	)
}

// withValues returns the facts that have a value.
func withValues(facts ...fact) []fact {
	return slices.DeleteFunc(facts, func(f fact) bool { return f.Value == "" })
}

// correctionsOf returns the changes that the collector made to a call.
func correctionsOf(r *tracking.Record) []correction {
	c := &r.Call
	var all []correction
	add := func(what, why string, args ...any) { all = append(all, correction{what, fmt.Sprintf(why, args...)}) }
	switch off := rows.ClockCorrection(c); {
	case c.OriginalTimestamp.IsZero():
		add("timestamp set to arrival time", "the sender did not set one")
	case c.SentAt.IsZero():
		add("timestamp not checked", "without sentAt the sender's clock is unknown")
	case off.Abs() >= time.Second:
		add("timestamp corrected by "+rows.Signed(off), "the sender's clock showed %s at %s", clockTime(c.SentAt), clockTime(c.ReceivedAt))
	}
	if strings.HasPrefix(c.ID, event.GeneratedIDPrefix) {
		add("messageId generated", "the sender did not set one, so duplicates cannot be detected")
	}
	for _, m := range suspiciousFields(c.Body) {
		switch {
		case m.meant != "":
			add(m.name+" ignored", "field names are case-sensitive: use %s", m.meant)
		default:
			add(m.name+" converted to a string", "the sender sent a number")
		}
	}
	if r.Repeats > 0 {
		add(text.Plural(r.Repeats, "duplicate", "duplicates")+" dropped", "the source sent this messageId more than once; the call is stored and delivered once")
	}
	return all
}

// A suspiciousField is a field with a name that resembles a known field, or with a number instead of
// a string as its value. In the first case, meant is the name of the known field.
type suspiciousField struct{ name, meant string }

// maxSuspiciousFields limits the number of suspiciousFields that are reported for a call.
const maxSuspiciousFields = 20

func suspiciousFields(body []byte) (found []suspiciousField) {
	for m := range jsonscan.Members(body) {
		if len(found) == maxSuspiciousFields {
			break
		}
		name := string(jsonscan.Unquote(m.Key))
		f, known := fields.ByName[name]
		switch {
		case !known:
			if meant := fields.Names[fieldsByFold[foldName(name)]]; meant != "" {
				found = append(found, suspiciousField{text.Cut(80, name), meant})
			}
		case event.TextOf(new(tracking.Call), f) != nil && page.KindOf(m.Value) == "num":
			found = append(found, suspiciousField{name: name})
		}
	}
	return found
}

// foldName converts a name to lower case without separators.
func foldName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// fieldsByFold maps folded names to fields.
var fieldsByFold = func() map[string]fields.Field {
	byFold := map[string]fields.Field{}
	for name, f := range fields.ByName {
		byFold[foldName(name)] = f
	}
	return byFold
}()

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// markCorrected returns a mark and a note if the collector writes the field.
func markCorrected(key string) (mark, note string) {
	switch key {
	case "receivedAt":
		return "ours", "arrival time"
	case "timestamp":
		return "ours", "event time, corrected"
	case "originalTimestamp":
		return "ours", "timestamp as received"
	case "sentAt":
		return "ours", "send time, in UTC"
	}
	return "", ""
}

func (p *callPanel) showRejection(r *tracking.Rejection, read *tracking.Call) {
	p.Violations = r.Violations
	p.Message, p.Hint, p.Place = r.Message, event.HintOf(r.Code), r.Index+1
	p.Title, p.Facts, p.Bytes = history.TitleOf(read), append(factsOf(read), senderFacts(r.Sender)...), len(r.Body)
	p.Body = page.LayOut(r.Body, func(key string) (string, string) {
		if key == r.Field {
			return "wrong", r.Message
		}
		return "", ""
	})
	if r.Field != "" && bytes.HasPrefix(r.Body, []byte("{")) && fields.Member(r.Body, r.Field) == nil {
		p.Body = addMissing(p.Body, r.Field, r.Message)
	}
	for _, m := range suspiciousFields(r.Body) {
		if m.meant != "" {
			p.Hint += fmt.Sprintf(" Did you mean %[2]s instead of %[1]q? Field names are case-sensitive.", m.name, m.meant)
		}
	}
}

func (p *callPanel) showRefusal(r *event.Refusal) {
	p.Message, p.Hint, p.Status = r.Message, event.HintOf(r.Code), r.Status
	p.Facts = append([]fact{{Name: "request", Value: r.Method + " " + r.Path}}, senderFacts(r.Sender)...)
	if p.Bytes = len(r.Body); p.Bytes > 0 {
		p.Body = page.LayOut(r.Body, nil)
	}
}

func senderFacts(s tracking.Sender) []fact {
	return withValues(fact{Name: "IP address", Value: s.Address}, fact{Name: "User agent", Value: s.UserAgent}, fact{Name: "Library", Value: s.Library})
}

// showCall returns only the panel if a script sent the request. It redirects other requests to
// the list with the panel open.
func (in *Inspector) showCall(r *http.Request) (page.Response, error) {
	ref, filter := r.PathValue("ref"), rows.ReadFilter(r.URL.Query())
	if !page.IsFragment(r) {
		return page.Response{To: filter.Link("/", "call", ref)}, nil
	}
	return in.showPanel(ref, filter, "", nil), nil
}

// showPanel returns the panel of a call, with a notice or the error of an action.
func (in *Inspector) showPanel(ref string, filter rows.Filter, notice string, refused *access.Error) page.Response {
	p, ok := in.panel(ref, filter)
	if !ok {
		return page.Response{Template: "calls", Part: "missing", Status: http.StatusNotFound, Page: page.Page{Body: filter.Link("/")}}
	}
	a := page.Response{Template: "calls", Part: "panel", Page: page.Page{Body: p}}
	p.Notice = notice
	if refused != nil {
		p.Notice, p.Failed, a.Status = page.Sentence(refused.Message), true, refused.Status
	}
	return a
}

// serveCallBody serves the stored bytes of a call or of a refused request.
func (in *Inspector) serveCallBody(w http.ResponseWriter, r *http.Request) {
	i, ok := in.c.History().Item(r.PathValue("ref"))
	body, contentType := i.Call().Body, "application/json"
	if i.Refusal != nil {
		body, contentType = i.Refusal.Body, "text/plain; charset=utf-8"
	}
	if !ok || len(body) == 0 {
		http.NotFound(w, r)
		return
	}
	page.SecureHeaders(w.Header())
	w.Header().Set("Content-Type", contentType)
	access.WriteBody(w, r, http.StatusOK, body)
}

// addMissing inserts a line for a missing field before the end of an object.
func addMissing(lines []page.Line, key, note string) []page.Line {
	missing := page.Line{Mark: "missing", Note: note, Parts: []page.LinePart{{Text: "  "}, {Kind: "key", Text: `"` + key + `"`}, {Text: ": …"}}}
	if len(lines) < 2 {
		return append(lines, missing)
	}
	return append(lines[:len(lines)-1:len(lines)-1], missing, lines[len(lines)-1])
}
