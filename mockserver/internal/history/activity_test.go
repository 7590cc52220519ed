package history_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// happened describes each activity in a word.
func happened(l history.Activities) (words []string) {
	for _, a := range l.Activities {
		switch {
		case a.Attempt != nil:
			words = append(words, fmt.Sprintf("%s attempt %d", a.Item.Call().ID, a.Attempt.Number))
		case a.Ended != nil:
			words = append(words, fmt.Sprintf("%s %v", a.Item.Call().ID, a.Ended.State))
		case a.Item.Refusal != nil:
			words = append(words, fmt.Sprintf("refused %d", a.Item.Refusal.Count))
		case a.Item.Rejection != nil:
			words = append(words, "rejected")
		default:
			words = append(words, a.Item.Call().ID)
		}
	}
	return words
}

func every(*history.Activity) bool { return true }

func accept(h *history.History, ids ...string) {
	b := event.Batch{ReceivedAt: time.Now()}
	for _, id := range ids {
		b.Calls = append(b.Calls, tracking.Call{ID: id, Source: "web", Type: "track", ReceivedAt: b.ReceivedAt})
	}
	h.Observe(event.Accepted{Batch: b})
}

func try(h *history.History, id string, number int) {
	h.Observe(tracking.Attempt{CallID: id, Source: "web", Destination: "crm", Attempt: webhook.Attempt{Number: number}})
	h.Observe(tracking.Ended{CallID: id, Source: "web", Destination: "crm", Attempt: number, Outcome: tracking.Outcome{State: tracking.StateDelivered}})
}

func TestActivitiesAreOrdered(t *testing.T) {
	h := history.New(100)
	start := h.Activities("", 10, false, every)
	assert.Empty(t, start.Activities)
	accept(h, "a", "b")
	try(h, "a", 1)
	h.Observe(tracking.Rejection{Code: tracking.CodeNoUser, Body: []byte(`{}`)})
	h.Observe(event.Refusal{Code: tracking.CodeUnknownWriteKey})
	h.Observe(event.Refusal{Code: tracking.CodeUnknownWriteKey})
	first := h.Activities(start.Next, 3, false, every)
	assert.Equal(t, []string{"a", "b", "a attempt 1"}, happened(first))
	rest := h.Activities(first.Next, 10, false, every)
	assert.Equal(t, []string{"a delivered", "rejected", "refused 2", "refused 2"}, happened(rest), "anonymous refusals are merged")
	assert.Zero(t, rest.Skipped)
	assert.Empty(t, h.Activities(rest.Next, 10, false, every).Activities)
}

func TestActivitiesOfCallDeliveredBeforeAcceptance(t *testing.T) {
	h := history.New(100)
	try(h, "a", 1)
	assert.Empty(t, h.Activities("", 10, false, every).Activities)
	accept(h, "a")
	assert.Equal(t, []string{"a", "a attempt 1", "a delivered"}, happened(h.Activities("", 10, false, every)))
}

func TestRestoredAttemptsAreNotActivities(t *testing.T) {
	h := history.New(100)
	accept(h, "a")
	try(h, "a", 2)
	h.Restore(tracking.Attempt{CallID: "a", Source: "web", Destination: "crm", Attempt: webhook.Attempt{Number: 1}})
	assert.Equal(t, []string{"a", "a attempt 2", "a delivered"}, happened(h.Activities("", 10, false, every)))
}

func TestNewestActivities(t *testing.T) {
	h := history.New(100)
	start := h.Activities("", 1, false, every).Next
	accept(h, "a", "b", "c", "d", "e")
	l := h.Activities(start, 2, true, every)
	assert.Equal(t, []string{"d", "e"}, happened(l))
	assert.EqualValues(t, 3, l.Skipped)
	assert.Empty(t, h.Activities(l.Next, 2, true, every).Activities)
}

func TestActivitiesCountSkipped(t *testing.T) {
	h := history.New(10)
	start := h.Activities("", 1, false, every).Next
	const many = 20_000
	for i := range many {
		accept(h, fmt.Sprint(i))
	}
	l := h.Activities(start, 500, false, every)
	assert.Len(t, l.Activities, 10)
	assert.EqualValues(t, many-10, l.Skipped)
}

func TestActivitiesAfterClear(t *testing.T) {
	h := history.New(10)
	accept(h, "a")
	place := h.Activities("", 10, false, every).Next
	h.Clear()
	accept(h, "b")
	assert.Equal(t, []string{"b"}, happened(h.Activities(place, 10, false, every)))
	assert.Equal(t, []string{"b"}, happened(h.Activities("nonsense", 10, false, every)), "a position of another process is ignored")
}

func TestMatchingActivities(t *testing.T) {
	h := history.New(100)
	accept(h, "a", "b", "c")
	l := h.Activities("", 10, false, func(a *history.Activity) bool { return a.Item.Call().ID == "b" })
	require.Len(t, l.Activities, 1)
	assert.Equal(t, "b", l.Activities[0].Item.Call().ID)

	l = h.Activities("", 1, false, func(a *history.Activity) bool { return a.Item.Call().ID != "c" })
	assert.Equal(t, []string{"b"}, happened(l), "the newest matching activity")
	assert.Zero(t, l.Skipped)
}

// TestReacceptedCallRepeatsNoActivities accepts a call again after Renew.
func TestReacceptedCallRepeatsNoActivities(t *testing.T) {
	h := history.New(100)
	accept(h, "a")
	try(h, "a", 1)
	place := h.Activities("", 10, false, every).Next
	accept(h, "a")
	try(h, "a", 1)
	assert.Equal(t, []string{"a", "a attempt 1", "a delivered"}, happened(h.Activities(place, 10, false, every)))
}
