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
	client.Close()                           // sends queued calls

	srv.Expect(t, mockserver.OfEvent("Signed Up"), mockserver.Like(`{"properties":{"plan":"Enterprise"}}`))
}
