package main

import (
	"time"

	segment "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// Tracker is a service's interface to the client. Its tests use a recorder as the client.
type Tracker struct {
	client segment.Client
	source string
}

type Account struct {
	ID, Name, Plan string
	Seats          int
}

func (t *Tracker) SignedUp(userID, email string, a Account, at time.Time) error {
	for _, m := range []segment.Message{
		segment.Identify{
			UserId: userID,
			Traits: segment.NewTraits().SetEmail(email).SetFirstName("Jo").SetCreatedAt(at).Set("source", t.source),
		},
		segment.Group{
			UserId:  userID,
			GroupId: a.ID,
			Traits:  segment.NewTraits().SetName(a.Name).Set("plan", a.Plan).Set("seats", a.Seats),
		},
		segment.Alias{PreviousId: "anon-" + userID, UserId: userID},
	} {
		if err := t.client.Enqueue(m); err != nil {
			return err
		}
	}
	return t.event(userID, "Signed Up", a, segment.NewProperties().Set("plan", a.Plan))
}

func (t *Tracker) event(userID, name string, a Account, p segment.Properties) error {
	return t.client.Enqueue(segment.Track{
		UserId:     userID,
		Event:      name,
		Properties: p.Set("source", t.source),
		Context:    &segment.Context{Extra: map[string]interface{}{"groupId": a.ID}},
		Integrations: segment.NewIntegrations().
			DisableAll().
			Enable("Amplitude").
			Set("Intercom", map[string]interface{}{"hideDefaultLauncher": true}),
	})
}

// A recorder is a client for tests.
type recorder struct{ messages []segment.Message }

func (r *recorder) Enqueue(m segment.Message) error {
	r.messages = append(r.messages, m)
	return m.Validate()
}

func (r *recorder) Close() error { return nil }

var _ segment.Client = (*recorder)(nil)

// backend is a service that tracks its users.
func backend(endpoint string) error {
	client, err := segment.NewWithConfig("backend-key", segment.Config{Endpoint: endpoint})
	if err != nil {
		return err
	}
	tracker := Tracker{client: client, source: "api"}
	err = tracker.SignedUp("u7", "jo@example.com", Account{"a7", "Initech", "team", 12}, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		return err
	}
	return client.Close()
}
