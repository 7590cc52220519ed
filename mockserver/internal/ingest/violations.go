package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Judge holds calls against the tracking plans of their sources. Its method is called
// from many goroutines at once, for each call: it must be quick where a call is as planned.
type Judge interface {
	// Judge returns how a call is not as planned: nothing if it is, or if its source has no
	// plan. member is its properties, or its traits if it is an identify or group call; nil
	// if it has none.
	Judge(c *tracking.Call, member []byte) Verdict
}

// A Verdict is how a call is not as planned, and what becomes of it.
type Verdict struct {
	Violations []tracking.Violation
	Reject     bool   // the call is not taken
	ReportTo   string // the source that gets a call of each violation; empty for none
}

// ViolationEvent is the event of the calls that tell of violations, and violationUser their
// user, as those of the service.
const (
	ViolationEvent = "Violation Generated"
	violationUser  = "schema-violations"
)

// reports are the calls that tell of the violations of a request, in batches for the
// sources that get some.
type reports struct{ batches []event.Batch }

// maxReportBatch is how many of them are in a batch.
const maxReportBatch = 500

// add adds a call for each violation of another. They are named for that, so that they are
// taken once if it comes again.
func (r *reports) add(source string, of *tracking.Call) {
	for i := range of.Violations {
		b := r.batch(source, of.ReceivedAt)
		b.Calls = append(b.Calls, report(source, of, i))
	}
}

// batch returns one that is not full.
func (r *reports) batch(source string, receivedAt time.Time) *event.Batch {
	for i := range r.batches {
		if b := &r.batches[i]; b.Source == source && len(b.Calls) < maxReportBatch {
			return b
		}
	}
	r.batches = append(r.batches, event.Batch{Source: source, ReceivedAt: receivedAt})
	return &r.batches[len(r.batches)-1]
}

// violationProperties are those that the service documents, by its names.
type violationProperties struct {
	AppVersion           string    `json:"appVersion"`
	EventMessageID       string    `json:"eventMessageID"`
	EventName            string    `json:"eventName"`
	EventSentAt          time.Time `json:"eventSentAt,omitzero"`
	EventTimestamp       time.Time `json:"eventTimestamp"`
	EventType            string    `json:"eventType"`
	SourceID             string    `json:"sourceID"`
	SourceName           string    `json:"sourceName"`
	SourceSlug           string    `json:"sourceSlug"`
	TrackingPlanID       string    `json:"trackingPlanID"`
	TrackingPlanName     string    `json:"trackingPlanName"`
	ViolationDescription string    `json:"violationDescription"`
	ViolationField       string    `json:"violationField"`
	ViolationType        string    `json:"violationType"`
}

// report makes the call that tells of one violation.
func report(source string, of *tracking.Call, i int) tracking.Call {
	v := &of.Violations[i]
	var context struct {
		App     json.RawMessage `json:"app"`
		Library json.RawMessage `json:"library,omitempty"`
	}
	var app struct{ Version string }
	if members := (struct{ Context json.RawMessage }{}); json.Unmarshal(of.Body, &members) == nil {
		_ = json.Unmarshal(members.Context, &context) // without a context, or with another, there is none
		_ = json.Unmarshal(context.App, &app)
	}
	c := tracking.Call{
		ID: reportID(of, i), Source: source, Type: "track", Event: ViolationEvent, UserID: violationUser,
		ReceivedAt: of.ReceivedAt, Timestamp: of.ReceivedAt,
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(struct { // of texts, and what was JSON before: it cannot fail
		Type         string              `json:"type"`
		Event        string              `json:"event"`
		UserID       string              `json:"userId"`
		MessageID    string              `json:"messageId"`
		Context      any                 `json:"context"`
		Integrations struct{}            `json:"integrations"`
		Properties   violationProperties `json:"properties"`
	}{c.Type, c.Event, c.UserID, c.ID, context, struct{}{}, violationProperties{
		AppVersion: app.Version, EventMessageID: of.ID, EventName: of.Event + of.Name, EventType: of.Type,
		EventSentAt: of.SentAt, EventTimestamp: of.Timestamp, SourceID: of.Source, SourceName: of.Source, SourceSlug: of.Source,
		TrackingPlanID: v.Plan, TrackingPlanName: v.Plan,
		ViolationDescription: v.Message, ViolationType: v.Kind,
		ViolationField: strings.ReplaceAll(strings.TrimPrefix(v.Pointer, "/"), "/", "."),
	}})
	text := bytes.TrimSuffix(body.Bytes(), []byte("}\n"))
	text = fields.AppendTimeMember(text, `,"receivedAt":"`, c.ReceivedAt)
	c.Body = append(fields.AppendTimeMember(text, `,"timestamp":"`, c.Timestamp), '}')
	return c
}

// reportID names the call that tells of the i-th violation of another.
func reportID(of *tracking.Call, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", of.Source, of.ID, i))
	return "violation-" + hex.EncodeToString(sum[:16])
}
