package inspector

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/signcheck"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A signaturePage explains why a receiver rejects a signature.
type signaturePage struct {
	Ref          string
	Title        string // title of the call
	Type         string
	Missing      bool // whether the call has expired
	Destinations []string
	Destination  string
	Problem      string // reason why the call has no body for the destination
	Signed       *signedBody
	Pasted       string
	PastedSign   string
	Verdicts     []finding
	Difference   *differenceView
	Tabs         page.Tabs // receiver code
	Recent       []rows.Row
}

// A signedBody is the signed body of a call for a destination.
type signedBody struct {
	Body      string
	Bytes     int
	Secret    bool
	Signature string
	Sent      string // signature of the last attempt, if it is different
	Standard  *standardSignature
	Stringify *differenceView
	Marshal   *differenceView // first difference from the output of encoding/json
	Changes   []changeLine
}

// A standardSignature contains the Standard Webhooks headers of an attempt.
type standardSignature struct{ ID, Timestamp, Signature string }

// standardOf returns the Standard Webhooks headers, or nil.
func standardOf(h http.Header) *standardSignature {
	s := standardSignature{h.Get(webhook.StandardIDHeader), h.Get(webhook.StandardTimestampHeader), h.Get(webhook.StandardSignatureHeader)}
	if s.Signature == "" {
		return nil
	}
	return &s
}

// A changeLine is a value that the canonical body does not preserve, with the reason.
type changeLine struct {
	canonical.Change
	Why string
}

// A finding is one result of the check.
type finding struct {
	Good  bool
	Text  string
	Fix   []signcheck.Line // code that fixes the mistake
	Tried []string         // explanations that were tried without success
}

// A differenceView shows the first difference of two byte strings.
type differenceView struct {
	At          int // byte offset
	Left, Right excerptView
}

// An excerptView is the text around the first difference.
type excerptView struct{ Before, Mark, After string }

var changeReasons = map[canonical.ChangeKind]string{
	canonical.ChangePrecision:     "More digits than a double-precision number can store. Send it as a string.",
	canonical.ChangeOverflow:      "Too large for a double-precision number. JSON.stringify writes null.",
	canonical.ChangeDuplicate:     "Duplicate key. Parsers keep the last value.",
	canonical.ChangeOrder:         "Keys look like array indices. JavaScript moves them to the front.",
	canonical.ChangeInvalidUTF8:   "Bytes are not UTF-8. They become U+FFFD.",
	canonical.ChangeLoneSurrogate: "Half of a surrogate pair. Many receivers read U+FFFD.",
}

// recentCalls is the number of calls that the page lists.
const recentCalls = 8

func (in *Inspector) showSignatures(r *http.Request) (page.Response, error) {
	p := signaturePage{
		Ref: r.Form.Get("call"), Destination: r.Form.Get("destination"),
		Pasted: r.Form.Get("body"), PastedSign: strings.TrimSpace(r.Form.Get("signature")),
		Tabs: page.Tabs{ID: "verify", Label: "Language", Snippets: []page.Snippet{
			{ID: "go", Name: "Go", Code: fill("verify-go", nil)},
			{ID: "node", Name: "Node", Code: fill("verify-node", nil)},
			{ID: "python", Name: "Python", Code: fill("verify-python", nil)},
		}},
	}
	destinations := slices.DeleteFunc(slices.Clone(in.c.Settings().Destinations), func(d tracking.Destination) bool { return isRelay(&d) })
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
		recent, _ := in.c.History().Page(0, recentCalls, nil)
		for i := range recent {
			p.Recent = append(p.Recent, rows.New(in.c.History(), &history.Item{Record: &recent[i]}, rows.Filter{}, nil))
		}
	}
	return page.Response{Template: "doctor", Page: page.Page{Title: "Signatures", Nav: "signatures", Body: p}}, nil
}

// diagnose fills the page for a destination.
func (in *Inspector) diagnose(p *signaturePage, d *tracking.Destination) {
	var body []byte
	var sent []signcheck.Stamp
	if i, ok := in.c.History().Item(p.Ref); ok && i.Record != nil {
		p.Title, p.Type = text.Cut(rows.TextLimit, history.TitleOf(&i.Record.Call)), i.Record.Call.Type
		var err error
		if body, err = in.c.Body(d, &i.Record.Call); err != nil {
			p.Problem = err.Error()
		} else {
			p.Signed, sent = in.signed(body, d, i.Record), stampsOf(i.Record, d.Name)
		}
	} else {
		p.Missing = p.Ref != ""
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

// keptAsText reports whether the signed body keeps the number as a string. webhook.Payload
// converts IDs and names to strings.
func keptAsText(c canonical.Change) bool {
	return fields.ByName[c.Path].IsText() && (c.Kind == canonical.ChangePrecision || c.Kind == canonical.ChangeOverflow)
}

// checkPasted adds findings about the received body and signature. body is the signed body,
// or nil if no call is selected.
func (p *signaturePage) checkPasted(body []byte, d *tracking.Destination, sent []signcheck.Stamp) {
	// Browsers send line breaks in forms as CR LF.
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

// checkSignature adds the result of a signature check.
func (p *signaturePage) checkSignature(a signcheck.Answer) {
	switch {
	case !a.Found && a.Tried == nil:
		p.Verdicts = append(p.Verdicts, finding{Text: "Select a call or paste the body. A signature alone cannot be checked."})
	case !a.Found:
		p.Verdicts = append(p.Verdicts, finding{Text: "No match found. The receiver may use a different secret or sign different bytes.", Tried: a.Tried})
	case len(a.Mistakes) > 0:
		for _, m := range a.Mistakes {
			p.Verdicts = append(p.Verdicts, finding{Text: m.Text, Fix: m.Fix})
		}
	case a.OfPasted && p.Signed == nil:
		p.Verdicts = append(p.Verdicts, finding{Good: true, Text: "The signature is valid for the pasted body and this destination's secret, in " + a.Header + "."})
	default:
		p.Verdicts = append(p.Verdicts, finding{Good: true, Text: "The signature is valid. It matches " + a.Header + "."})
	}
}

// stampsOf returns the Standard Webhooks IDs and timestamps of the attempts at a destination,
// newest first.
func stampsOf(r *tracking.Record, destination string) (stamps []signcheck.Stamp) {
	for _, a := range slices.Backward(r.Attempts) {
		if s := standardOf(a.RequestHeader); s != nil && a.Destination == destination {
			stamps = append(stamps, signcheck.Stamp{ID: s.ID, Timestamp: s.Timestamp})
		}
	}
	return stamps
}

// bodyProblem returns the probable cause of a changed body.
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

// sameValue reports whether two JSON documents are equal except for key order.
func sameValue(a, b []byte) bool {
	d, err := jsondiff.ComparePaths(a, b)
	return err == nil && d.Differing == 0
}

// viewDifference returns the first difference, or nil.
func viewDifference(left, right []byte) *differenceView {
	at := text.CommonPrefix(left, right)
	if at == len(left) && at == len(right) {
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
	for end < len(rest) && rest[end]&0xC0 == 0x80 { // extend to the end of the UTF-8 sequence
		end++
	}
	e.Mark, e.After = valid(rest[:end]), valid(rest[end:min(len(rest), around+end)])
	if len(rest) > around+end {
		e.After += "…"
	}
	return e
}
