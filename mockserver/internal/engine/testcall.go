package engine

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// SendTest sends a test call to all webhooks of a destination at the same time, without retries,
// and returns the attempts. The call is not stored. It returns an error if the request cannot be
// created, for example because the transform has no result for the call.
func (c *Collector) SendTest(ctx context.Context, d tracking.Destination, typ string) ([]tracking.Attempt, error) {
	id := "test-" + strings.ToLower(rand.Text())
	request, err := sender.NewCallRequest(&d.Settings, sender.Content{ID: id, Body: c.Redact(&d, testCall(typ, id)), Number: 1, At: time.Now(), Transform: c.Transform(&d)})
	if err != nil {
		return nil, fmt.Errorf("could not create the test call: %w", err)
	}
	endpoints := d.Endpoints()
	attempts := make([]tracking.Attempt, len(endpoints))
	var requests sync.WaitGroup
	for i, endpoint := range endpoints {
		requests.Go(func() {
			r := request
			r.Endpoint = endpoint
			attempts[i] = tracking.Attempt{CallID: id, Destination: d.Name, Attempt: c.sender.Send(ctx, r)}
		})
	}
	requests.Wait()
	return attempts, nil
}

// testCall returns a call with values that often cause problems in receivers: non-ASCII text,
// fractions, and keys with spaces.
func testCall(typ, id string) []byte {
	call := map[string]any{
		"type": typ, "messageId": id, "userId": "test-user", "timestamp": time.Now().UTC().Format(fields.TimeLayout),
		"context": map[string]any{"library": map[string]any{"name": "collector"}},
	}
	for _, f := range fields.TypeNamed(typ).Own {
		if name := fields.Names[f]; f.IsText() {
			call[name] = "test-" + name
		} else {
			call[name] = map[string]any{"plan": "Pro <&> café", "seats": 3, "unit price": 9.5}
		}
	}
	if typ == "page" {
		call["properties"] = map[string]any{"path": "/test", "referrer": "", "title": "Test", "url": "https://example.com/test"}
	}
	body, _ := json.Marshal(call) // cannot fail for strings and numbers
	return body
}
