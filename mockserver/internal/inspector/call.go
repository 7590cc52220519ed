package inspector

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsonscan"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A callPanel is all that is known of one item of the feed.
type callPanel struct {
	row
	Back         string // the list without this call
	Change       int64
	Message      string // of a rejection or a refusal: what is wrong
	Hint         string // what would be right
	Status       int    // of a refusal
	Place        int    // of a rejected call in its request, from 1
	Facts        []fact
	Corrections  []correction
	Violations   []tracking.Violation // of the tracking plan of its source
	Destinations []callDestination
	Body         []jsonLine
	Bytes        int
	Notice       string
}

// A fact is a name and a value.
type fact struct{ Name, Value string }

// A correction is what the collector did to a call, and why.
type correction struct{ What, Why string }

// A callDestination is what became of a call at one destination, or why it does
// not go there.
type callDestination struct {
	Name     string
	Look     string // see deliveryState.look; "apart" where the call does not come to it
	Word     string // the same for people
	Reason   string
	RetryAt  time.Time
	Tries    int
	Held     string        // why a call that waits is not being tried
	Replay   bool          // it can be replayed
	Attempts []attemptLine // the newest first
	Older    int           // how many more there were
}

// shownAttempts is how many attempts a panel shows for each destination.
const shownAttempts = 20

// An attemptLine is one request to a webhook.
type attemptLine struct {
	tracking.Attempt
	OK       bool
	Request  []fact
	Sent     string
	Response []fact
	Received string
	Cut      bool // more came than is kept
}

// panel makes the panel of what a ref names.
func (in *Inspector) panel(ref string, filter callFilter) (*callPanel, bool) {
	i, ok := in.c.History().Item(ref)
	if !ok {
		return nil, false
	}
	destinations := in.c.Attached()
	p := &callPanel{row: in.newRow(&i, filter, destinations), Change: i.Change, Back: filter.Link("/")}
	switch {
	case i.Record != nil:
		p.readRecord(i.Record, destinations)
		p.addHolds(in.c.Status())
	case i.Rejection != nil:
		p.readRejection(i.Rejection, i.Read)
	default:
		p.Message, p.Hint = i.Refusal.Message, hints[i.Refusal.Code]
		p.Status = i.Refusal.Status
	}
	return p, true
}

func (p *callPanel) readRecord(r *tracking.Record, destinations []engine.AttachedDestination) {
	c := &r.Call
	p.Title, p.Facts = titleOf(c), factsOf(c)
	if r.RetryCount > 0 {
		p.Facts = append(p.Facts, fact{"X-Retry-Count", strconv.Itoa(r.RetryCount)})
	}
	p.Corrections, p.Violations = correctionsOf(r), c.Violations
	p.Body, p.Bytes = layOut(c.Body, markCorrected), len(c.Body)
	for _, s := range deliveryStatesOf(r, destinations) {
		d := callDestination{
			Name: s.Destination, Look: s.look(), Word: lookWord(s.look()), Reason: s.Reason, RetryAt: s.RetryAt, Tries: s.Attempt,
			Replay: s.State != tracking.StatePending && slices.ContainsFunc(destinations, func(d engine.AttachedDestination) bool { return d.Name == s.Destination }),
		}
		d.addAttempts(r.Attempts)
		p.Destinations = append(p.Destinations, d)
	}
	p.addSkipped(c, destinations)
}

// addAttempts adds those that were made for the destination.
func (d *callDestination) addAttempts(all []tracking.Attempt) {
	var ours []tracking.Attempt
	for _, a := range all {
		if a.Destination == d.Name {
			ours = append(ours, a)
		}
	}
	slices.SortStableFunc(ours, func(a, b tracking.Attempt) int { return b.Time.Compare(a.Time) })
	shown := ours[:min(len(ours), shownAttempts)]
	d.Older = len(ours) - len(shown)
	for _, a := range shown {
		d.Attempts = append(d.Attempts, newAttemptLine(a))
	}
}

// addHolds says why destinations hold the call back.
func (p *callPanel) addHolds(states []engine.DestinationStatus) {
	for i := range p.Destinations {
		d := &p.Destinations[i]
		if d.Look != "pending" && d.Look != "retrying" {
			continue
		}
		for _, s := range states {
			switch {
			case s.Destination != d.Name:
			case !s.GoneSince.IsZero():
				d.Held = "The destination has stopped: its webhooks answered 410."
			case s.Paused:
				d.Held = "The destination is paused."
			case !s.HeldUntil.IsZero():
				d.Held = "The receiver asked by Retry-After to be left alone."
			case s.Down:
				d.Held = "The destination is down: fewer calls are tried, until one succeeds."
			}
		}
	}
}

// addSkipped adds the destinations that do not get the call, and why.
func (p *callPanel) addSkipped(c *tracking.Call, destinations []engine.AttachedDestination) {
	for _, d := range destinations {
		if slices.ContainsFunc(p.Destinations, func(known callDestination) bool { return known.Name == d.Name }) {
			continue
		}
		deliver, reason := d.Routes(c)
		if deliver {
			reason = "the destination was made after the call came"
		}
		p.Destinations = append(p.Destinations, callDestination{Name: d.Name, Look: "apart", Word: lookWord("apart"), Reason: reason})
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
	for _, name := range slices.Sorted(maps.Keys(h)) {
		value := strings.Join(h[name], ", ")
		if engine.SecretHeader(name) {
			value = engine.Hidden
		}
		facts = append(facts, fact{name, value})
	}
	return facts
}

// factsOf returns the identifiers of a call.
func factsOf(c *tracking.Call) []fact {
	var facts []fact
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, fact{name, value})
		}
	}
	add("userId", c.UserID)
	add("anonymousId", c.AnonymousID)
	add("groupId", c.GroupID)
	add("previousId", c.PreviousID)
	add("messageId", c.ID)
	add("source", c.Source)
	return facts
}

// correctionsOf returns what the collector changed in a call, and why.
func correctionsOf(r *tracking.Record) []correction {
	c := &r.Call
	var all []correction
	add := func(what, why string, args ...any) { all = append(all, correction{what, fmt.Sprintf(why, args...)}) }
	switch off := clockCorrection(c); {
	case c.OriginalTimestamp.IsZero():
		add("timestamp is when the call came", "the sender gave none")
	case c.SentAt.IsZero():
		add("timestamp is the sender's", "without a sentAt its clock cannot be checked")
	case off.Abs() >= time.Second:
		add("timestamp moved by "+signed(off), "the sender's clock said %s when it sent, and it was %s here", clockTime(c.SentAt), clockTime(c.ReceivedAt))
	}
	if strings.HasPrefix(c.ID, madeIDPrefix) {
		add("messageId was made here", "the sender gave none, so that a repeat cannot be recognised")
	}
	for _, m := range oddMembers(c.Body) {
		switch {
		case m.meant != "":
			add(m.name+" is not read", "names are case sensitive: it would be %s", m.meant)
		default:
			add(m.name+" is read as text", "it came as a number")
		}
	}
	if r.Repeats > 0 {
		add(text.Plural(r.Repeats, "repeat", "repeats")+" dropped", "the same messageId came again from this source; the call is stored and delivered once")
	}
	return all
}

// An oddMember is a member of a call whose name is nearly that of a field, or
// whose value is a number where a text belongs.
type oddMember struct{ name, meant string }

// maxOddMembers is how many of them are shown at most.
const maxOddMembers = 20

func oddMembers(body []byte) (odd []oddMember) {
	s := jsonscan.New(body)
	_ = s.Object(func(key []byte) error { // what comes before an error is good to know
		name := string(jsonscan.Unquote(key))
		value, err := s.Value()
		if err != nil || len(odd) == maxOddMembers {
			return err
		}
		f, known := fields.ByName[name]
		switch {
		case !known:
			if meant := fields.Names[fieldsByFold[foldName(name)]]; meant != "" {
				odd = append(odd, oddMember{text.Cut(80, name), meant})
			}
		case fields.TextOf(new(tracking.Call), f) != nil && kindOf(value) == "num":
			odd = append(odd, oddMember{name: name})
		}
		return nil
	})
	return odd
}

// foldName reduces a name to its letters, in lower case.
func foldName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}

// fieldsByFold finds a field by its folded name.
var fieldsByFold = func() map[string]fields.Field {
	byFold := map[string]fields.Field{}
	for name, f := range fields.ByName {
		byFold[foldName(name)] = f
	}
	return byFold
}()

// madeIDPrefix is the prefix of messageIds that the collector makes.
const madeIDPrefix = "collector-"

func clockTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") }

// markCorrected marks the members that the collector writes.
func markCorrected(key string) (mark, note string) {
	switch key {
	case "receivedAt":
		return "ours", "when the call came"
	case "timestamp":
		return "ours", "when it happened, corrected"
	case "originalTimestamp":
		return "ours", "the timestamp as it came"
	case "sentAt":
		return "ours", "when it was sent, in UTC"
	}
	return "", ""
}

func (p *callPanel) readRejection(r *tracking.Rejection, read *tracking.Call) {
	p.Violations = r.Violations
	p.Message, p.Hint, p.Place = r.Message, hints[r.Code], r.Index+1
	p.Title, p.Facts, p.Bytes = titleOf(read), factsOf(read), len(r.Body)
	p.Body = layOut(r.Body, func(key string) (string, string) {
		if key == r.Field {
			return "wrong", r.Message
		}
		return "", ""
	})
	if r.Field != "" && !hasMember(r.Body, r.Field) {
		p.Body = addMissing(p.Body, r.Field, r.Message)
	}
	for _, m := range oddMembers(r.Body) {
		if m.meant != "" {
			p.Hint += fmt.Sprintf(" Its member %q may be meant for %s: names are case sensitive.", m.name, m.meant)
		}
	}
}

// hints say what to do about each code.
var hints = map[tracking.Code]string{
	tracking.CodeNotObject:        `Send an object for each call, such as {"type":"track","userId":"u1","event":"Signed Up"}.`,
	tracking.CodeUnknownType:      "Set type to identify, track, page, screen, group or alias; it is case sensitive.",
	tracking.CodeNoUser:           "Give the userId of someone you know, or an anonymousId of your own making for someone you do not.",
	tracking.CodeNoEvent:          "Name what happened in event, such as Order Completed.",
	tracking.CodeNoGroup:          "Give the ID of the company, account or team in groupId.",
	tracking.CodeNoPrevious:       "Give the ID that the user had before in previousId, and the new one in userId.",
	tracking.CodeBadProperties:    "Make properties an object, or leave it out.",
	tracking.CodeBadTraits:        "Make traits an object, or leave it out.",
	tracking.CodeBadContext:       "Make context an object, or leave it out.",
	tracking.CodeBadIntegrations:  `Make integrations an object of names to true, false or an object, such as {"All":false,"Webhooks":true}.`,
	tracking.CodeBadTimestamp:     "Write timestamp as ISO 8601 in UTC, such as 2026-01-31T12:00:00.000Z, or leave it out.",
	tracking.CodeBadField:         "Make it a string.",
	tracking.CodeMessageIDTooLong: "Use a UUID, or leave messageId to the client library.",
	tracking.CodeBadMessageID:     "Use a UUID, or leave messageId to the client library.",
	tracking.CodeCallTooLarge:     "Send less with one call: move what is long out of properties, traits and context.",
	tracking.CodeNotAsPlanned:     "Send what the tracking plan of the source says, or mend the plan: it is read again when its file changes.",
	tracking.CodeUnknownWriteKey:  "Use the write key of one of the sources. It goes as the user of Basic auth, with an empty password.",
	tracking.CodeInvalidJSON:      "Check what the program sends: the body must be one JSON object, in UTF-8.",
	tracking.CodeInvalidBatch:     `Send {"batch":[…]} to /v1/batch, or one call to its own path, such as /v1/track.`,
	tracking.CodeTooManyCalls:     "Send smaller batches.",
	tracking.CodeBodyTooLarge:     "Send smaller batches.",
	tracking.CodeTimeout:          "Client libraries send again by themselves. The network, or a proxy on the way, is too slow for batches of this size.",
	tracking.CodeBadEncoding:      "Send the body as it is, or with Content-Encoding: gzip.",
	tracking.CodeQueueFull:        "Client libraries send again by themselves. See which destination holds the queue up.",
	tracking.CodeRateLimited:      "Client libraries send again by themselves, later. Send less, or raise the source's rate.",
	tracking.CodeUnavailable:      "Client libraries send again by themselves. The collector's log says why it cannot store.",
	tracking.CodeInvalidCalls:     "Mend the calls that are listed beside this one. In strict mode none of a batch is stored where one is wrong.",
	tracking.CodeNotFound:         "Batches go to /v1/batch, single calls to /v1/track and its siblings.",
	tracking.CodeWrongMethod:      "Send with POST.",
}

// showCall answers with a call: to a script with the panel, else with the page
// that has it beside the list.
func (in *Inspector) showCall(r *http.Request) (answer, error) {
	ref, filter := r.PathValue("ref"), readFilter(r.URL.Query())
	if !isFragment(r) {
		return answer{to: filter.Link("/", "call", ref)}, nil
	}
	return in.showPanel(ref, filter, ""), nil
}

// showPanel answers a script with the panel of a call, and what was just done with it.
func (in *Inspector) showPanel(ref string, filter callFilter, notice string) answer {
	p, ok := in.panel(ref, filter)
	if !ok {
		return answer{template: "calls", part: "missing", status: http.StatusNotFound}
	}
	p.Notice = notice
	return answer{template: "calls", part: "panel", page: page{Body: p}}
}

// serveCallBody answers with a call as it is stored, byte for byte.
func (in *Inspector) serveCallBody(w http.ResponseWriter, r *http.Request) {
	i, ok := in.c.History().Item(r.PathValue("ref"))
	body := i.Call().Body
	if !ok || i.Refusal != nil {
		http.NotFound(w, r)
		return
	}
	secureHeaders(w.Header())
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
