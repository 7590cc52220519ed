package mockserver_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// crm starts a collector of one source, with one destination.
func crm() *engine.Collector {
	receiver := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // takes everything
	c, err := engine.New(engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []tracking.Destination{hook("crm", "http://crm.example/hook")},
		Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
	})
	if err != nil {
		log.Fatal(err)
	}
	return c
}

func ExampleCollector_SyncAudience() {
	c := crm()
	defer c.Close()
	ctx := context.Background()
	for _, members := range [][]string{{"ada", "bob"}, {"ada", "eve"}} {
		sync, err := c.SyncAudience(ctx, users.AudienceSync{Name: "Big Spenders", Members: users.Members(members...)})
		if err == nil {
			sync, err = c.WaitSync(ctx, sync.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(sync.Entered, "entered,", sync.Left, "left")
	}
	for _, r := range c.History().Records(nil) {
		fmt.Println(r.Call.UserID, r.Call.Traits())
	}
	// Output:
	// 2 entered, 0 left
	// 1 entered, 1 left
	// ada map[big_spenders:true]
	// bob map[big_spenders:true]
	// bob map[big_spenders:false]
	// eve map[big_spenders:true]
}

func ExampleCollector_SyncTrait() {
	c := crm()
	defer c.Close()
	ctx := context.Background()
	for _, values := range []map[string]any{{"ada": 120, "bob": "n/a"}, {"ada": 150}} {
		sync, err := c.SyncTrait(ctx, users.TraitSync{Name: "Lifetime Value", Values: users.Values(values)})
		if err == nil {
			_, err = c.WaitSync(ctx, sync.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, r := range c.History().Records(nil) {
		fmt.Println(r.Call.UserID, r.Call.Traits())
	}
	// Output:
	// ada map[lifetime_value:120]
	// bob map[lifetime_value:n/a]
	// ada map[lifetime_value:150]
	// bob map[lifetime_value:<nil>]
}

func ExampleCollector_DeleteUsers() {
	c := crm()
	defer c.Close()
	ctx := context.Background()
	request, err := c.DeleteUsers(ctx, users.DeletionRequest{ID: "gdpr-117", UserIDs: []string{"ada", "bob"}})
	if err == nil {
		request, err = c.WaitDeletion(ctx, request.ID)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, target := range request.Targets {
		fmt.Println(target.Destination, "was notified of", target.Delivered, "users of", target.Source)
	}
	for outcome, err := range c.DeletionOutcomes(ctx, "gdpr-117") {
		fmt.Println(outcome.UserID, outcome.State, err)
	}
	// Output:
	// crm was notified of 2 users of web
	// ada delivered <nil>
	// bob delivered <nil>
}

func ExampleReadMembers() {
	file := strings.NewReader("ada\nbob\n")
	for id, err := range users.ReadMembers(file) {
		fmt.Println(id, err)
	}
	// Output:
	// ada <nil>
	// bob <nil>
}
