package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// SendTest sends a call of a type to each URL of a destination at once, as a delivery would
// but for retries, and returns what they answered. It is no call of a sender's, and is not
// remembered.
func (c *Collector) SendTest(ctx context.Context, d tracking.Destination, typ string) ([]tracking.Attempt, error) {
	id := "test-" + strings.ToLower(rand.Text())
	body, err := webhook.Payload(testCall(typ, id), d.AliasFields)
	if err != nil {
		return nil, fmt.Errorf("the test call has no payload: %w", err)
	}
	request := sender.Request{Body: body, MessageID: id, Number: 1}
	if err := request.Sign(&d.Settings); err != nil {
		return nil, fmt.Errorf("the test call cannot be signed: %w", err)
	}
	attempts := make([]tracking.Attempt, len(d.Webhooks))
	var requests sync.WaitGroup
	for i, endpoint := range d.Webhooks {
		requests.Go(func() {
			r := request
			r.Endpoint = endpoint
			attempts[i] = tracking.Attempt{CallID: id, Destination: d.Name, Attempt: c.sender.Send(ctx, r)}
		})
	}
	requests.Wait()
	return attempts, nil
}

// testCall makes a call with what receivers trip over: text that is not ASCII, a
// fraction, a key with a space.
func testCall(typ, id string) []byte {
	call := map[string]any{
		"type": typ, "messageId": id, "userId": "test-user", "timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		"context": map[string]any{"library": map[string]any{"name": "collector"}},
	}
	sample := map[string]any{"plan": "Pro <&> café", "seats": 3, "unit price": 9.5}
	switch typ {
	case "track":
		call["event"], call["properties"] = "Test Call", sample
	case "page":
		call["name"], call["properties"] = "Test", map[string]any{"path": "/test", "referrer": "", "title": "Test", "url": "https://example.com/test"}
	case "screen":
		call["name"] = "Test"
	case "identify":
		call["traits"] = sample
	case "group":
		call["groupId"], call["traits"] = "test-group", sample
	case "alias":
		call["previousId"] = "test-before"
	}
	body, _ := json.Marshal(call) // strings and numbers always marshal
	return body
}
