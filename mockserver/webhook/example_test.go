package webhook_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// The handler verifies the signature before it calls your handler.
func ExampleHandler() {
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := io.ReadAll(r.Body) // the body is verified, and has at most webhook.MaxBody bytes
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Println("received", string(call))
	})
	srv := httptest.NewServer(webhook.Handler("the shared secret", hook))
	defer srv.Close()

	for _, secret := range []string{"the shared secret", "a guess"} {
		body := `{"type":"delete","userId":"019mr8mf4r","timestamp":"2024-05-17T10:20:30.123Z"}`
		req, err := http.NewRequest(http.MethodPost, srv.URL, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		req.Header.Set(webhook.SignatureHeader, webhook.Sign(secret, []byte(body)))
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// received {"type":"delete","userId":"019mr8mf4r","timestamp":"2024-05-17T10:20:30.123Z"}
	// 200 OK
	// 401 Unauthorized
}

// If a framework has read the body, verify the raw bytes.
func ExampleVerify() {
	body := []byte(`{"type":"identify"}`)
	const signature = "65fa3cc4aa795a7507104be99beee719da049c63" // value of the X-Signature header
	fmt.Println(webhook.Verify("secret", body, signature))
	fmt.Println(webhook.Verify("another secret", body, signature))
	fmt.Println(webhook.Verify("secret", body, ""))
	// Output:
	// <nil>
	// webhook: the X-Signature header does not match the body: the secrets differ, or the body was changed
	// webhook: the request has no signature: set the destination's shared secret, and its signature to service for X-Signature, standard for webhook-signature, or both
}

func ExampleSign() {
	fmt.Println(webhook.Sign("secret", []byte(`{"type":"identify"}`)))
	// Output: 65fa3cc4aa795a7507104be99beee719da049c63
}

// The body has the format of JSON.stringify: array indices come first, numbers have their shortest
// form, and only required escapes are used.
func ExamplePayload() {
	body, err := webhook.Payload([]byte(`{
		"type": "track", "event": "Item Bought", "userId": "019mr8mf4r",
		"properties": {"price": 39.950, "sku": "A\/7", "2": "two", "1": "one"},
		"timestamp": "2024-05-17T10:20:30.123Z"
	}`), webhook.AliasSpaced)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(body))
	// Output: {"version":1,"type":"track","userId":"019mr8mf4r","event":"Item Bought","properties":{"1":"one","2":"two","price":39.95,"sku":"A/7"},"timestamp":"2024-05-17T10:20:30.123Z"}
}

func ExampleSettings_Validate() {
	s := webhook.Settings{Webhooks: []webhook.Endpoint{
		{URL: "https://example.com/hook"},
		{URL: "example.com/hook", Headers: map[string]string{"Host": "internal"}},
	}}
	fmt.Println(s.Validate())
	// Output:
	// webhooks[1].url: has no protocol: start it with https://example.com
	// webhooks[1].headers["Host"]: is set by the collector: remove it
}

func ExamplePolicy() {
	p := webhook.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}}
	fmt.Println(p.Check(netip.MustParseAddr("10.20.30.40")))
	fmt.Println(p.Check(netip.MustParseAddr("10.0.0.1")))
	fmt.Println(p.Check(netip.MustParseAddr("64:ff9b::169.254.169.254")))
	// Output:
	// <nil>
	// the address 10.0.0.1 is refused: private network 10.0.0.0/8; to allow it, set egress.allow: ["10.0.0.0/8"]
	// the address 64:ff9b::a9fe:a9fe is refused: it carries 169.254.169.254, cloud metadata service 169.254.169.254/32; no setting allows it
}
