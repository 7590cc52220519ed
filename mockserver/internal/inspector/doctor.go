package inspector

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/signcheck"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A signaturePage explains a signature that a receiver does not accept.
type signaturePage struct {
	Ref          string
	Title        string // of the call
	Type         string
	Missing      bool // the call is not remembered
	Destinations []string
	Destination  string
	Problem      string // why there is no body for it
	Signed       *signedBody
	Pasted       string
	PastedSign   string
	Verdicts     []finding
	Difference   *differenceView
	Tabs         page.Tabs // code that verifies
	Recent       []rows.Row
}

// A signedBody is what is signed of a call for a destination.
type signedBody struct {
	Body      string
	Bytes     int
	Secret    bool
	Signature string
	Sent      string // the signature of the last attempt, where it was another
	Standard  *standardSignature
	Stringify *differenceView
	Marshal   *differenceView // to what encoding/json makes of the parsed body
	Changes   []changeLine
}

// A standardSignature is what the last attempt was signed with as the Standard Webhooks
// specification says.
type standardSignature struct{ ID, Timestamp, Signature string }

// standardOf returns that of a request, or nil.
func standardOf(h http.Header) *standardSignature {
	s := standardSignature{h.Get(webhook.StandardIDHeader), h.Get(webhook.StandardTimestampHeader), h.Get(webhook.StandardSignatureHeader)}
	if s.Signature == "" {
		return nil
	}
	return &s
}

// A changeLine is a value of the call that the body cannot represent.
type changeLine struct {
	canonical.Change
	Why string
}

// A finding is one thing to say about what was pasted.
type finding struct {
	Good  bool
	Text  string
	Mend  []signcheck.Line // code that does what is right
	Tried []string         // where nothing explains it
}

// A differenceView is where two texts begin to differ.
type differenceView struct {
	At          int // bytes from the start
	Left, Right excerptView
}

// An excerptView is a piece of a text around the byte where it begins to differ.
type excerptView struct{ Before, Mark, After string }

var changeReasons = map[canonical.ChangeKind]string{
	canonical.ChangePrecision:     "More digits than a double-precision number can store. Send it as a string.",
	canonical.ChangeOverflow:      "Too large for a double-precision number. JSON.stringify writes null.",
	canonical.ChangeDuplicate:     "Duplicate key. Parsers keep the last value.",
	canonical.ChangeOrder:         "Keys look like array indices. JavaScript moves them to the front.",
	canonical.ChangeInvalidUTF8:   "Bytes are not UTF-8. They become U+FFFD.",
	canonical.ChangeLoneSurrogate: "Half of a surrogate pair. Many receivers read U+FFFD.",
}

func (in *Inspector) showSignatures(r *http.Request) (page.Answer, error) {
	p := signaturePage{
		Ref: r.Form.Get("call"), Destination: r.Form.Get("destination"),
		Pasted: r.Form.Get("body"), PastedSign: strings.TrimSpace(r.Form.Get("signature")),
		Tabs: page.Tabs{ID: "verify", Label: "Language", Snippets: []page.Snippet{
			{ID: "go", Name: "Go", Code: fill("verify-go", nil)},
			{ID: "node", Name: "Node", Code: fill("verify-node", nil)},
			{ID: "python", Name: "Python", Code: fill("verify-python", nil)},
		}},
	}
	destinations := in.c.Settings().Destinations
	for _, d := range destinations {
		p.Destinations = append(p.Destinations, d.Name)
	}
	if i := slices.IndexFunc(destinations, settings.DestinationNamed(p.Destination)); i >= 0 {
		in.diagnose(&p, &destinations[i])
	} else if len(destinations) > 0 {
		p.Destination = destinations[0].Name
		in.diagnose(&p, &destinations[0])
	}
	if p.Ref == "" {
		p.Recent = in.list(rows.Filter{}, 0).Rows
		p.Recent = p.Recent[:min(len(p.Recent), 8)]
	}
	return page.Answer{Template: "doctor", Page: page.Page{Title: "Signatures", Nav: "signatures", Body: p}}, nil
}

// diagnose compares the call with what was pasted.
func (in *Inspector) diagnose(p *signaturePage, d *tracking.Destination) {
	var body []byte
	var sent []signcheck.Stamp
	if p.Ref != "" {
		i, ok := in.c.History().Item(p.Ref)
		if !ok || i.Record == nil {
			p.Missing = true
			return
		}
		p.Title, p.Type = text.Cut(rows.TextLimit, history.TitleOf(&i.Record.Call)), i.Record.Call.Type
		var err error
		if body, err = webhook.Payload(i.Record.Call.Body, d.AliasFields); err != nil {
			p.Problem = err.Error()
			return
		}
		p.Signed, sent = in.signed(body, d, i.Record), stampsOf(i.Record, d.Name)
	}
	if p.Pasted != "" || p.PastedSign != "" {
		p.checkPasted(body, d, sent)
	}
}

func (in *Inspector) signed(body []byte, d *tracking.Destination, r *tracking.Record) *signedBody {
	s := &signedBody{Body: string(body), Bytes: len(body), Secret: d.SharedSecret != ""}
	if s.Secret {
		s.Signature = webhook.Sign(d.SharedSecret, body)
	}
	for _, a := range r.Attempts {
		if a.Destination == d.Name {
			s.Sent = a.RequestHeader.Get(webhook.SignatureHeader)
			s.Standard = standardOf(a.RequestHeader)
		}
	}
	if s.Sent == s.Signature {
		s.Sent = ""
	}
	if d.Signature == webhook.SignatureStandard {
		s.Signature = ""
	}
	if stringified, err := webhook.Canonical(nil, body); err == nil {
		s.Stringify = viewDifference(body, stringified)
	}
	var parsed any
	if json.Unmarshal(body, &parsed) == nil {
		if marshalled, err := json.Marshal(parsed); err == nil {
			s.Marshal = viewDifference(body, marshalled)
		}
	}
	for _, c := range canonical.Changes(r.Call.Body) {
		if !keptAsText(c) {
			s.Changes = append(s.Changes, changeLine{c, changeReasons[c.Kind]})
		}
	}
	return s
}

// keptAsText reports whether a number lost nothing after all: webhook.Payload writes
// IDs and names as strings.
func keptAsText(c canonical.Change) bool {
	switch c.Path {
	case "userId", "anonymousId", "groupId", "previousId", "event", "name", "category":
		return c.Kind == canonical.ChangePrecision || c.Kind == canonical.ChangeOverflow
	}
	return false
}

// checkPasted adds findings about the body and the signature that a receiver got. body
// is what was signed, nil if no call was chosen, and sent are the attempts at it.
func (p *signaturePage) checkPasted(body []byte, d *tracking.Destination, sent []signcheck.Stamp) {
	// A browser sends the line breaks of a form as CR LF.
	pasted := []byte(strings.ReplaceAll(p.Pasted, "\r\n", "\n"))
	add := func(good bool, text string) { p.Verdicts = append(p.Verdicts, finding{Good: good, Text: text}) }
	if body != nil && len(pasted) > 0 {
		if p.Difference = viewDifference(body, pasted); p.Difference == nil {
			add(true, "The received body is identical to the signed body.")
		} else {
			add(false, bodyProblem(body, pasted))
		}
	}
	if p.PastedSign == "" {
		return
	}
	if d.SharedSecret == "" {
		add(false, "The destination has no shared secret. Its requests are not signed.")
		return
	}
	if len(pasted) == 0 {
		pasted = nil
	}
	p.checkSignature(signcheck.Check(signcheck.Question{
		Given: p.PastedSign, Secret: d.SharedSecret, Previous: d.PreviousSecret, Scheme: d.Signature, Body: body, Pasted: pasted, Sent: sent,
	}))
}

// checkSignature adds what is to be said of the signature.
func (p *signaturePage) checkSignature(a signcheck.Answer) {
	switch {
	case !a.Found && a.Tried == nil:
		p.Verdicts = append(p.Verdicts, finding{Text: "Select a call or paste the body. A signature alone cannot be checked."})
	case !a.Found:
		p.Verdicts = append(p.Verdicts, finding{Text: "No match found. The receiver may use a different secret or sign different bytes.", Tried: a.Tried})
	case len(a.Mistakes) > 0:
		for _, m := range a.Mistakes {
			p.Verdicts = append(p.Verdicts, finding{Text: m.Text, Mend: m.Mend})
		}
	case a.OfPasted && p.Signed == nil:
		p.Verdicts = append(p.Verdicts, finding{Good: true, Text: "The signature is valid for the pasted body and this destination's secret, in " + a.Header + "."})
	default:
		p.Verdicts = append(p.Verdicts, finding{Good: true, Text: "The signature is valid. It matches " + a.Header + "."})
	}
}

// stampsOf returns the ids and timestamps of the attempts at a call that were signed as the
// Standard Webhooks specification says, the newest first.
func stampsOf(r *tracking.Record, destination string) (stamps []signcheck.Stamp) {
	for _, a := range slices.Backward(r.Attempts) {
		if s := standardOf(a.RequestHeader); s != nil && a.Destination == destination {
			stamps = append(stamps, signcheck.Stamp{ID: s.ID, Timestamp: s.Timestamp})
		}
	}
	return stamps
}

// bodyProblem says what probably changed a body.
func bodyProblem(body, pasted []byte) string {
	const over = " Verify the raw bytes before parsing them."
	if bytes.Equal(bytes.TrimSpace(pasted), body) {
		return "The received body has extra white space around it."
	}
	same, err := webhook.Canonical(nil, pasted)
	switch {
	case err != nil:
		return "The received body is not valid JSON. It was truncated or modified."
	case !bytes.Equal(same, body) && !sameValue(same, body):
		return "The received body has different content. It belongs to another call or was modified."
	case bytes.Contains(pasted, []byte(`": `)):
		return "Same JSON with extra spaces: it was parsed and re-encoded, for example by Python's json.dumps." + over
	case bytes.Contains(pasted, []byte(`\u003c`)) || bytes.Contains(pasted, []byte(`\u0026`)) || bytes.Contains(pasted, []byte(`\u003e`)):
		return "Same JSON with <, > or & escaped: it was parsed and re-encoded, for example by Go's encoding/json." + over
	case !bytes.Equal(same, body):
		return "Same JSON with a different key order: it was parsed and re-encoded." + over
	}
	return "Same JSON in a different format: it was parsed and re-encoded." + over
}

// sameValue reports whether two documents differ in the order of their keys at most.
func sameValue(a, b []byte) bool {
	sorted := func(doc []byte) []byte {
		var v any
		if json.Unmarshal(doc, &v) != nil {
			return nil
		}
		out, _ := json.Marshal(v) // what was parsed always marshals
		return out
	}
	return bytes.Equal(sorted(a), sorted(b))
}

// viewDifference shows where two texts begin to differ, nil if they do not.
func viewDifference(left, right []byte) *differenceView {
	at := difference(left, right)
	if at < 0 {
		return nil
	}
	return &differenceView{At: at, Left: excerptAt(left, at), Right: excerptAt(right, at)}
}

func excerptAt(text []byte, at int) excerptView {
	const around = 48
	valid := func(part []byte) string { return strings.ToValidUTF8(string(part), "") }
	e := excerptView{Before: valid(text[max(0, at-around):at])}
	if at-around > 0 {
		e.Before = "…" + e.Before
	}
	rest := text[at:]
	if len(rest) == 0 {
		return e
	}
	end := 1
	for end < len(rest) && rest[end]&0xC0 == 0x80 { // to the end of the character
		end++
	}
	e.Mark, e.After = valid(rest[:end]), valid(rest[end:min(len(rest), around+end)])
	if len(rest) > around+end {
		e.After += "…"
	}
	return e
}

// difference returns the first offset at which two texts differ, -1 if they do not.
func difference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) == len(b) {
		return -1
	}
	return n
}
