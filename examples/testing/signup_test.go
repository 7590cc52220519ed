package signup

import (
	"testing"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

func TestSignUpIsTracked(t *testing.T) {
	srv := mockserver.RunT(t)

	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	SignUp(client, "user-123", "Enterprise") // your code
	client.Close()                           // sends what is queued

	calls, err := srv.Wait(t.Context(), 1, mockserver.OfEvent("Signed Up"))
	if err != nil {
		t.Fatal(err)
	}
	if plan := calls[0].Properties()["plan"]; plan != "Enterprise" {
		t.Errorf("plan is %v, want Enterprise", plan)
	}
}
