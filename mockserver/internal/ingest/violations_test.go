package ingest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// judgeFunc implements ingest.Judge with a function.
type judgeFunc func(c *tracking.Call, member []byte) ingest.Verdict

func (f judgeFunc) Judge(c *tracking.Call, member []byte) ingest.Verdict { return f(c, member) }

// strictJudge finds two violations in each call whose properties or traits contain "bad".
func strictJudge(reject bool, reportTo string) judgeFunc {
	return func(_ *tracking.Call, member []byte) ingest.Verdict {
		if !strings.Contains(string(member), "bad") {
			return ingest.Verdict{}
		}
		return ingest.Verdict{Reject: reject, ReportTo: reportTo, Violations: []tracking.Violation{
			{Kind: "wrong type", Event: "E", Pointer: "/properties/a", Message: "a is bad", Plan: "shop"},
			{Kind: "unplanned property", Event: "E", Pointer: "/properties/b/c", Message: "c is not in the plan", Plan: "shop"},
		}}
	}
}

const mixedCalls = `{"sentAt":"2026-01-31T12:00:01Z","context":{"app":{"version":"7"},"library":{"name":"l"}},"batch":[
	{"type":"track","event":"E","userId":"u","messageId":"1","properties":{"a":"good"}},
	{"type":"track","event":"E","userId":"u","messageId":"2","properties":{"a":"bad"}},
	{"type":"identify","userId":"u","messageId":"3","traits":{"a":"bad"},"properties":{}},
	{"type":"page","userId":"u","messageId":"4","properties":null,"traits":{"a":"bad"}}]}`

func TestPlanViolations(t *testing.T) {
	ids := func(calls []tracking.Call) (ids []string) {
		for _, c := range calls {
			ids = append(ids, c.ID)
		}
		return ids
	}
	marked := newIngest(func(c *ingest.Config) { c.Plans = strictJudge(false, "") })
	require.Equal(t, success, marked.post("/v1/batch", mixedCalls).Body.String())
	require.Equal(t, []string{"1", "2", "3", "4"}, ids(marked.Stored()))
	for i, want := range []int{0, 2, 2, 0} {
		assert.Len(t, marked.Stored()[i].Violations, want)
	}
	assert.Empty(t, marked.rejections)

	rejecting := newIngest(func(c *ingest.Config) { c.Plans = strictJudge(true, "") })
	require.Equal(t, success, rejecting.post("/v1/batch", mixedCalls).Body.String())
	require.Equal(t, []string{"1", "4"}, ids(rejecting.Stored()))
	for _, c := range rejecting.Stored() {
		again, err := event.ReadCall(c.Source, c.Body)
		require.NoError(t, err, "%s", c.Body)
		assert.Equal(t, c, again)
	}
	require.Len(t, rejecting.rejections, 2)
	assert.Equal(t, tracking.CodeNotAsPlanned, rejecting.rejections[0].Code)
	assert.Equal(t, `the call violates the tracking plan "shop": a is bad (and 1 more)`, rejecting.rejections[0].Message)
	assert.Equal(t, "properties", rejecting.rejections[0].Field)
	assert.Len(t, rejecting.rejections[0].Violations, 2)
	// In strict mode, the response reports rejections.
	require.Equal(t, http.StatusOK, rejecting.post("/v1/track", `{"event":"E","userId":"u","properties":{"a":"bad"}}`).Code)
	assert.Len(t, rejecting.rejections, 3)

	strict := newIngest(func(c *ingest.Config) { c.Plans, c.Strict = strictJudge(true, "violations"), true })
	res := strict.post("/v1/track", `{"event":"E","userId":"u","properties":{"a":"bad"}}`)
	assert.Equal(t, http.StatusBadRequest, res.Code)
	assert.Contains(t, res.Body.String(), `"not_as_planned"`)
	assert.Empty(t, strict.Stored())
}

func TestViolationsAreReportedOnce(t *testing.T) {
	var refuse error
	in := newIngest(func(c *ingest.Config) {
		c.Plans = strictJudge(false, "violations")
		c.Journal = journalFunc(func(_ context.Context, b event.Batch) error {
			if b.Source == "violations" {
				return refuse
			}
			return nil
		})
	})
	refuse = errors.New("the disk is on fire")
	require.Equal(t, http.StatusServiceUnavailable, in.post("/v1/batch", mixedCalls).Code, "the report cannot be stored")
	require.Len(t, in.Stored(), 4)
	refuse = nil
	for range 2 { // the sender repeats the call
		require.Equal(t, success, in.post("/v1/batch", mixedCalls).Body.String())
	}
	require.Len(t, in.Stored(), 8)
	report := in.Stored()[4]
	again, err := event.ReadCall("violations", report.Body)
	require.NoError(t, err)
	assert.Equal(t, report, again)
	assert.Equal(t, ingest.ViolationEvent, report.Event)
	assert.Equal(t, map[string]any{"app": map[string]any{"version": "7"}, "library": map[string]any{"name": "l"}}, report.Context())
	properties := report.Properties()
	delete(properties, "eventTimestamp")
	delete(properties, "eventSentAt")
	assert.Equal(t, map[string]any{
		"appVersion": "7", "eventMessageID": "2", "eventName": "E", "eventType": "track", "sourceID": "key", "sourceName": "key", "sourceSlug": "key",
		"trackingPlanID": "shop", "trackingPlanName": "shop", "violationType": "wrong type", "violationField": "properties.a", "violationDescription": "a is bad",
	}, properties)
	assert.Equal(t, "properties.b.c", in.Stored()[5].Properties()["violationField"])
	for _, c := range in.Stored()[4:] {
		assert.Empty(t, c.Violations)
	}
}
