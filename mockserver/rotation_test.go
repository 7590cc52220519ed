package mockserver_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// newVerifier returns a receiver that counts the requests verified by each secret. The
// empty secret counts all requests.
func newVerifier(t *testing.T, secrets ...string) (address string, count func(secret string) int) {
	t.Helper()
	var mu sync.Mutex
	taken := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		taken[""]++
		for _, secret := range secrets {
			if webhook.VerifyStandard(secret, body, r.Header) == nil {
				taken[secret]++
			}
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func(secret string) int {
		mu.Lock()
		defer mu.Unlock()
		return taken[secret]
	}
}

// During rotation, requests have two signatures, so that receivers can use either secret.
func TestSecretRotation(t *testing.T) {
	const before, after = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	byAPI := func(t *testing.T, srv *mockserver.Server, change string, _ url.Values) {
		status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", change)
		require.Equal(t, http.StatusOK, status, answer)
	}
	byForm := func(t *testing.T, srv *mockserver.Server, _ string, form url.Values) {
		for name, value := range map[string]string{"name": "crm", "new": "false", "enabled": "true", "signature": "standard"} {
			form.Set(name, value)
		}
		form.Set("url0", srv.Engine().Settings().Destinations[0].Webhooks[0].URL)
		res, page := submit(t, srv.URL+"/destinations/save", form)
		require.Equal(t, http.StatusOK, res.StatusCode, page)
		_, page = get(t, srv.URL+"/destination?name=crm")
		assert.NotContains(t, page, before)
		assert.NotContains(t, page, after)
	}
	for name, change := range map[string]func(*testing.T, *mockserver.Server, string, url.Values){"by the API": byAPI, "by the form": byForm} {
		t.Run(name, func(t *testing.T) {
			address, count := newVerifier(t, before, after)
			srv := mockserver.RunT(t)
			require.NoError(t, srv.Engine().AddDestination(t.Context(), tracking.Destination{Name: "crm", Settings: webhook.Settings{
				Webhooks: []webhook.Endpoint{{URL: address}}, SharedSecret: before, Signature: webhook.SignatureStandard,
			}}))
			calls := 0
			expect := func(knowBefore, knowAfter int) {
				t.Helper()
				calls++
				post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u"}`)
				delivered(t, srv, "crm", calls)
				assert.Equal(t, []int{calls, knowBefore, knowAfter}, []int{count(""), count(before), count(after)})
			}
			expect(1, 0)
			change(t, srv, `{"sharedSecret":"`+after+`","rotate":true}`, url.Values{"secretDo": {"rotate"}, "sharedSecret": {after}})
			expect(2, 1)
			_, shown := askAdmin(t, srv, "GET", "/destinations/crm", "")
			assert.Equal(t, true, shown["rotating"])
			change(t, srv, `{"previousSecret":""}`, url.Values{"secretDo": {"keep"}, "forgetPrevious": {"true"}})
			expect(2, 2)
			_, shown = askAdmin(t, srv, "GET", "/destinations/crm", "")
			assert.Equal(t, false, shown["rotating"])
			assert.Equal(t, "standard", shown["signature"])
		})
	}
}

func TestInvalidRotationIsRefused(t *testing.T) {
	srv := mockserver.RunT(t)
	status, _ := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","webhooks":[{"url":"https://a.example"}]}`)
	require.Equal(t, http.StatusCreated, status)
	refused := func(change, want string) {
		t.Helper()
		status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", change)
		assert.Equal(t, http.StatusUnprocessableEntity, status)
		assert.Contains(t, answer["message"], want)
	}
	refused(`{"rotate":true,"sharedSecret":"a"}`, "rotate: needs an existing shared secret")
	refused(`{"signature":"standard"}`, "sharedSecret: is empty")
	status, _ = askAdmin(t, srv, "PATCH", "/destinations/crm", `{"sharedSecret":"a"}`)
	require.Equal(t, http.StatusOK, status)
	refused(`{"rotate":true}`, "rotate: needs a new sharedSecret")
	refused(`{"rotate":true,"sharedSecret":"b"}`, "previousSecret: cannot be used with X-Signature")
}

// A test call has the saved settings of a configured destination, whose page has no fields. The
// test call of the admin API is the same.
func TestTestCallsUseTheSettingsOfConfiguredDestinations(t *testing.T) {
	const current, previous = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	requests := make(chan *http.Request, 2)
	bodies := make(chan string, 2)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		for _, secret := range []string{current, previous} {
			assert.NoError(t, webhook.VerifyStandard(secret, body, r.Header))
		}
		requests <- r
		bodies <- string(body)
	}))
	t.Cleanup(receiver.Close)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{{Name: "fixed", Settings: webhook.Settings{
		Webhooks:     []webhook.Endpoint{{URL: receiver.URL, Headers: map[string]string{"X-Tenant": "acme"}}},
		SharedSecret: current, PreviousSecret: previous, Signature: webhook.SignatureStandard, AliasFields: webhook.AliasCamelCase,
	}}}})
	for name, send := range map[string]func(){
		"page": func() {
			_, page := submit(t, srv.URL+"/destinations/test", url.Values{"name": {"fixed"}, "new": {"false"}, "testType": {"alias"}, "url0": {receiver.URL}, "headers0": {"X-Tenant: (hidden)"}})
			assert.Contains(t, page, "Accepted: 200")
		},
		"API": func() {
			status, answer := askAdmin(t, srv, "POST", "/destinations/fixed/test", `{"type":"alias"}`)
			assert.Equal(t, http.StatusOK, status, answer)
		},
	} {
		send()
		if !assert.Len(t, requests, 1, "%s: no request", name) {
			continue
		}
		r := <-requests
		assert.Equal(t, "acme", r.Header.Get("X-Tenant"), name)
		assert.Empty(t, r.Header.Get(webhook.SignatureHeader), name)
		assert.Contains(t, <-bodies, `"previousId"`, name)
	}
}
