package mockserver_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// crm starts a collector of one source, with one destination.
func crm() *mockserver.Server {
	receiver := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}) // takes everything
	srv, err := mockserver.Run(mockserver.Config{
		Sources:      []mockserver.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []mockserver.Destination{hook("crm", "http://crm.example/hook")},
		Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(receiver)},
	})
	if err != nil {
		log.Fatal(err)
	}
	return srv
}

func ExampleCollector_SyncAudience() {
	srv := crm()
	defer srv.Close()
	ctx := context.Background()
	for _, members := range [][]string{{"ada", "bob"}, {"ada", "eve"}} {
		sync, err := srv.Engine().SyncAudience(ctx, mockserver.AudienceSync{Name: "Big Spenders", Members: mockserver.Members(members...)})
		if err == nil {
			sync, err = srv.Engine().WaitSync(ctx, sync.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(sync.Entered, "entered,", sync.Left, "left")
	}
	for _, call := range srv.Calls(mockserver.OfType("identify")) {
		fmt.Println(call.UserID, call.Traits())
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
	srv := crm()
	defer srv.Close()
	ctx := context.Background()
	for _, values := range []map[string]any{{"ada": 120, "bob": "n/a"}, {"ada": 150}} {
		sync, err := srv.Engine().SyncTrait(ctx, mockserver.TraitSync{Name: "Lifetime Value", Values: mockserver.Values(values)})
		if err == nil {
			_, err = srv.Engine().WaitSync(ctx, sync.ID)
		}
		if err != nil {
			log.Fatal(err)
		}
	}
	for _, call := range srv.Calls() {
		fmt.Println(call.UserID, call.Traits())
	}
	// Output:
	// ada map[lifetime_value:120]
	// bob map[lifetime_value:n/a]
	// ada map[lifetime_value:150]
	// bob map[lifetime_value:<nil>]
}

func ExampleCollector_DeleteUsers() {
	srv := crm()
	defer srv.Close()
	ctx := context.Background()
	request, err := srv.Engine().DeleteUsers(ctx, mockserver.DeletionRequest{ID: "gdpr-117", UserIDs: []string{"ada", "bob"}})
	if err == nil {
		request, err = srv.Engine().WaitDeletion(ctx, request.ID)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, target := range request.Targets {
		fmt.Println(target.Destination, "was notified of", target.Delivered, "users of", target.Source)
	}
	for outcome, err := range srv.Engine().DeletionOutcomes(ctx, "gdpr-117") {
		fmt.Println(outcome.UserID, outcome.State, err)
	}
	// Output:
	// crm was notified of 2 users of web
	// ada delivered <nil>
	// bob delivered <nil>
}

func ExampleReadMembers() {
	file := strings.NewReader("ada\nbob\n")
	for id, err := range mockserver.ReadMembers(file) {
		fmt.Println(id, err)
	}
	// Output:
	// ada <nil>
	// bob <nil>
}
