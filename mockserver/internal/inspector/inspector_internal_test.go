package inspector

import (
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

func TestOddMembers(t *testing.T) {
	body := []byte(`{"type":"track","userID":"u","event":12,"anonymous_id":"a","Event":"E","properties":{"userID":1},"other":1,"integrations":{}}`)
	assert.Equal(t, []suspiciousField{{"userID", "userId"}, {"event", ""}, {"anonymous_id", "anonymousId"}, {"Event", "event"}}, suspiciousFields(body))
	assert.Empty(t, suspiciousFields([]byte(`[1]`)))
	record := &tracking.Record{Call: tracking.Call{Body: body}}
	assert.Contains(t, correctionsOf(record), correction{"userID ignored", "field names are case-sensitive: use userId"})
	assert.Contains(t, correctionsOf(record), correction{"event converted to a string", "the sender sent a number"})
}
