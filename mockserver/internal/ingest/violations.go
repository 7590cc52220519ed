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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Judge checks calls against the tracking plans of their sources. It is called
// concurrently, for every call, so it must be fast for calls without violations.
type Judge interface {
	// Judge returns the violations of a call. The Verdict is zero for a valid call, and for a
	// source without a plan. member contains the properties of the call, or the traits of an
	// identify or group call. It may be nil.
	Judge(c *tracking.Call, member []byte) Verdict
}

// A Verdict contains the violations of a call and their consequences.
type Verdict struct {
	Violations []tracking.Violation
	Reject     bool   // reject the call
	ReportTo   string // source that receives a call for each violation; may be empty
}

// Event and user of the calls that report violations, as in the service.
const (
	ViolationEvent = "Violation Generated"
	violationUser  = "schema-violations"
)

// reports contains the calls that report the violations of a request.
type reports struct{ batches []event.Batch }

// maxReportBatch is the maximum number of calls in a batch.
const maxReportBatch = 500

// add adds a report for each violation of a call. The messageIds of the reports are derived from
// the call, so that repeated calls do not cause additional reports.
func (r *reports) add(source string, of *tracking.Call) {
	for i := range of.Violations {
		b := r.batch(source, of.ReceivedAt)
		b.Calls = append(b.Calls, report(source, of, i))
	}
}

// batch returns a batch of the source that has room for a call.
func (r *reports) batch(source string, receivedAt time.Time) *event.Batch {
	for i := range r.batches {
		if b := &r.batches[i]; b.Source == source && len(b.Calls) < maxReportBatch {
			return b
		}
	}
	r.batches = append(r.batches, event.Batch{Source: source, ReceivedAt: receivedAt})
	return &r.batches[len(r.batches)-1]
}

// violationProperties are the properties of a report, as documented by the service.
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

// report returns the call that reports the i-th violation of the call of.
func report(source string, of *tracking.Call, i int) tracking.Call {
	v := &of.Violations[i]
	var context struct {
		App     json.RawMessage `json:"app"`
		Library json.RawMessage `json:"library,omitempty"`
	}
	var app struct{ Version string }
	if members := (struct{ Context json.RawMessage }{}); json.Unmarshal(of.Body, &members) == nil {
		_ = json.Unmarshal(members.Context, &context) // stays empty if the context is missing or invalid
		_ = json.Unmarshal(context.App, &app)
	}
	c := tracking.Call{
		ID: reportID(of, i), Source: source, Type: "track", Event: ViolationEvent, UserID: violationUser,
		ReceivedAt: of.ReceivedAt, Timestamp: of.ReceivedAt,
	}
	body := text.JSON(struct { // cannot fail: it contains only strings and valid JSON
		Type         string              `json:"type"`
		Event        string              `json:"event"`
		UserID       string              `json:"userId"`
		MessageID    string              `json:"messageId"`
		Context      any                 `json:"context"`
		Integrations struct{}            `json:"integrations"`
		Properties   violationProperties `json:"properties"`
	}{c.Type, c.Event, c.UserID, c.ID, context, struct{}{}, violationProperties{
		AppVersion: app.Version, EventMessageID: of.ID, EventName: event.NameOf(of), EventType: of.Type,
		EventSentAt: of.SentAt, EventTimestamp: of.Timestamp, SourceID: of.Source, SourceName: of.Source, SourceSlug: of.Source,
		TrackingPlanID: v.Plan, TrackingPlanName: v.Plan,
		ViolationDescription: v.Message, ViolationType: v.Kind,
		ViolationField: strings.ReplaceAll(strings.TrimPrefix(v.Pointer, "/"), "/", "."),
	}}, "")
	body = fields.AppendTimeMember(bytes.TrimSuffix(body, []byte("}")), `,"receivedAt":"`, c.ReceivedAt)
	c.Body = append(fields.AppendTimeMember(body, `,"timestamp":"`, c.Timestamp), '}')
	return c
}

// reportID returns the messageId of the report of the i-th violation.
func reportID(of *tracking.Call, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", of.Source, of.ID, i))
	return "violation-" + hex.EncodeToString(sum[:16])
}
