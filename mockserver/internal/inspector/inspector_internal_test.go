package inspector

import (
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestPanelShowsTheNewestAttempts(t *testing.T) {
	var all []tracking.Attempt
	for n := range 30 {
		for _, name := range []string{"hook", "other"} {
			all = append(all, tracking.Attempt{Destination: name, Attempt: webhook.Attempt{Number: n + 1, Time: time.Unix(int64(n), 0)}})
		}
	}
	var p callPanel
	p.addAttempts(all)
	require.Len(t, p.Attempts, 2*shownAttempts)
	assert.Equal(t, 30, p.Attempts[0].Number)
	assert.Equal(t, "other", p.Attempts[1].Destination)
	assert.Equal(t, 20, p.Older)
	assert.Equal(t, p.Attempts, append(p.Newest(), p.Earlier()...))
	assert.Len(t, p.Newest(), listedAttempts)
}

// TestHiddenBodyHasNoMissingField checks that a rejected field is marked as missing only in an object.
func TestHiddenBodyHasNoMissingField(t *testing.T) {
	for body, missing := range map[string]bool{`{"type":"page"}`: true, "(not shown, because a source redacts values)": false, `["writeKey"]`: false} {
		var p callPanel
		p.showRejection(&tracking.Rejection{Code: tracking.CodeUnknownWriteKey, Field: "writeKey", Body: []byte(body)}, &tracking.Call{})
		assert.Equal(t, missing, slices.ContainsFunc(p.Body, func(l page.Line) bool { return l.Mark == "missing" }), body)
	}
}

func TestOddMembers(t *testing.T) {
	body := []byte(`{"type":"track","userID":"u","event":12,"anonymous_id":"a","Event":"E","properties":{"userID":1},"other":1,"integrations":{}}`)
	assert.Equal(t, []suspiciousField{{"userID", "userId"}, {"event", ""}, {"anonymous_id", "anonymousId"}, {"Event", "event"}}, suspiciousFields(body))
	assert.Empty(t, suspiciousFields([]byte(`[1]`)))
	record := &tracking.Record{Call: tracking.Call{Body: body}}
	assert.Contains(t, correctionsOf(record), correction{"userID ignored", "field names are case-sensitive: use userId"})
	assert.Contains(t, correctionsOf(record), correction{"event converted to a string", "the sender sent a number"})
}

// TestCountFollowsRelativeTimes checks that the count of a search changes when a call no longer matches
// because of its age.
func TestCountFollowsRelativeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := engine.New(engine.Config{AnyWriteKey: true})
		require.NoError(t, err)
		defer c.Close()
		guard, err := access.NewGuard(access.GuardConfig{Loopback: true})
		require.NoError(t, err)
		in := New(c, Config{Guard: guard})
		defer in.Close()
		c.History().Observe(event.Accepted{Batch: event.Batch{ReceivedAt: time.Now(), Calls: []tracking.Call{{ID: "m", ReceivedAt: time.Now(), Body: []byte(`{}`)}}}})
		end, _ := c.History().End()
		f := in.newFollower(rows.ReadFilter(url.Values{"q": {"since:1m"}}), end.String(), "")
		first := f.next()
		require.NotNil(t, first.Counts)
		assert.Contains(t, first.Counts.HTML, "<b>1</b> of 1 call matches")
		time.Sleep(2 * time.Minute)
		second := f.next()
		require.NotNil(t, second.Counts)
		assert.Contains(t, second.Counts.HTML, "<b>0</b> of 1 call match")
	})
}
