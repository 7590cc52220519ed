package sender_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/sender"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// One attempt at one entry of a destination.
func ExampleSender() {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "120")
		http.Error(w, "come back later", http.StatusServiceUnavailable)
	}))
	defer srv.Close()

	s, err := sender.New(webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()

	body := []byte(`{"type":"delete","userId":"019mr8mf4r","timestamp":"2024-05-17T10:20:30.123Z"}`)
	a := s.Send(context.Background(), sender.Request{
		Endpoint:  webhook.Endpoint{URL: srv.URL, Headers: map[string]string{"Authorization": "Bearer token"}},
		Body:      body,
		Signature: webhook.Sign("secret", body),
		MessageID: "0192f0f4-7b0c-7000-8000-000000000001",
		Number:    1,
	})
	fmt.Println(a.Verdict, a.Reason, a.RetryAfter)
	fmt.Println(a.Error)
	fmt.Printf("%s", a.ResponseBody)
	// Output:
	// temporary status 2m0s
	// answered 503 (Service Unavailable)
	// come back later
}

// When to attempt a call again. The last argument is rand.Float64() in earnest.
func ExampleNext() {
	accepted := time.Date(2024, 5, 17, 10, 0, 0, 0, time.UTC)
	show := func(next time.Time, ok bool) { fmt.Println(next.Format(time.TimeOnly), ok) }

	show(sender.Next(accepted, accepted, 1, 0, 0.5))
	show(sender.Next(accepted.Add(time.Hour), accepted, 20, 0, 0.5))
	show(sender.Next(accepted.Add(time.Hour), accepted, 21, 20*time.Minute, 0.5)) // Retry-After: 1200
	show(sender.Next(accepted.Add(webhook.Window), accepted, 40, 0, 0.5))
	// Output:
	// 10:00:00 true
	// 11:05:00 true
	// 11:20:00 true
	// 00:00:00 false
}
