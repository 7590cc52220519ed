package service

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// TestAdminAPIMatchesDocument sends every documented request, and validates requests and
// responses against the OpenAPI document.
func TestAdminAPIMatchesDocument(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(receiver.Close)
	s := start(t, Options{Dev: true, Config: &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(),
		Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{
			hook("good", receiver.URL),
			hook("gone", receiver.URL+"/gone"),
		},
	}})
	contract := newContract(t, s.AdminURL())
	send := func(key, body string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/batch", strings.NewReader(body))
		require.NoError(t, err)
		req.SetBasicAuth(key, "")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
	}
	send("web-key", `{"batch":[{"type":"track","userId":"u1","event":"E","messageId":"m 1/a","properties":{"n":12345678901234567890}},
		{"type":"page","anonymousId":"a","name":"N","category":"C","messageId":"m2"},{"type":"track","userId":"u"},
		{"type":"identify","userId":"ada/b","anonymousId":"a","messageId":"m3","traits":{"plan":"Pro"}}]}`)
	send("", `{"batch":[]}`)
	waitLedgers(t, s, func(ledgers []tracking.Ledger) bool {
		return len(ledgers) == 2 && ledgers[0].Pending == 0 && ledgers[1].Pending == 0
	})

	// The ID of the audience below, derived from its source, destination and key.
	const computation = "is7fsrtkbnk6xggw"
	// The ID of the event above, derived from its source, type and name.
	const event = "22dabzer5qqitjtj"
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/health", "", 200},
		{"GET", "/ledger", "", 200},
		{"GET", "/ledger?verify=true", "", 200},
		{"POST", "/sources", `{"name":"app"}`, 201},
		{"POST", "/sources", `{"name":"app"}`, 409},
		{"GET", "/sources", "", 200},
		{"GET", "/sources/app", "", 200},
		{"GET", "/sources/none", "", 404},
		{"PATCH", "/sources/app", `{"callsPerSecond":5}`, 200},
		{"DELETE", "/sources/web", "", 409},
		{"DELETE", "/sources/app", "", 204},
		{"POST", "/destinations", `{"name":"made","sources":["web"],"sharedSecret":"s","webhooks":[{"url":"` + receiver.URL + `","headers":{"Authorization":"Bearer x"}}]}`, 201},
		{"GET", "/destinations", "", 200},
		{"GET", "/destinations/made", "", 200},
		{"PATCH", "/destinations/made", `{"enabled":false,"aliasFields":"camelCase","traceContext":"all"}`, 200},
		{"PATCH", "/destinations/made", `{"signature":"standard","sharedSecret":"t","rotate":true}`, 200},
		{"PATCH", "/destinations/made", `{"previousSecret":""}`, 200},
		{"PATCH", "/destinations/made", `{"sharedSecret":"whsec_?"}`, 422},
		{"PATCH", "/destinations/made", `{"types":{"allow":["track"]},"events":{"deny":["Order *"]}}`, 200},
		{"PATCH", "/destinations/made", `{"maxPerSecond":0.5,"concurrency":8}`, 200},
		{"PATCH", "/destinations/made", `{"maxPerSecond":1e9}`, 422},
		{"PATCH", "/destinations/made", `{"events":{"deny":["Or*der"]}}`, 422},
		{"POST", "/destinations/preview", `{"types":{"allow":["track"]},"events":{"allow":["Order *"]}}`, 200},
		{"PATCH", "/destinations/good", `{"enabled":false}`, 409},
		{"POST", "/destinations/made/pause", "", 200},
		{"POST", "/destinations/made/resume", "", 200},
		{"DELETE", "/destinations/made?discard=true", "", 204},
		{"DELETE", "/destinations/made", "", 404},
		{"GET", "/destinations/gone/failed?limit=1&type=track&type=page", "", 200},
		{"POST", "/destinations/gone/replay", `{"types":["track"],"messageIds":["m1","no"],"dryRun":true}`, 200},
		{"POST", "/destinations/none/replay", "", 404},
		{"POST", "/destinations/gone/replays", `{"types":["track"]}`, 201},
		{"POST", "/destinations/gone/replays", `{"dryRun":true}`, 422},
		{"POST", "/destinations/none/replays", "", 404},
		{"GET", "/replays", "", 200},
		{"GET", "/replays/none", "", 404},
		{"GET", "/calls?limit=1&source=web", "", 200},
		{"GET", "/calls?before=2", "", 200},
		{"GET", "/calls?where=prop.n:>5&where=-traits.x:*", "", 200},
		{"GET", "/calls/web/m%201%2Fa", "", 200},
		{"GET", "/calls/web/none", "", 404},
		{"GET", "/calls/web/m2/attempts", "", 200},
		{"POST", "/calls/web/m2/replay", `{"destination":"good"}`, 200},
		{"POST", "/calls/web/m2/replay", `{"destination":"good"}`, 409},
		{"GET", "/users/u1/timeline?limit=10", "", 200},
		{"GET", "/users/ada%2Fb/timeline?offset=0", "", 200},
		{"GET", "/rejections", "", 200},
		{"GET", "/problems", "", 200},
		{"GET", "/rejections?type=track&limit=1", "", 200},
		{"GET", "/activity", "", 200},
		{"GET", "/activity?limit=2&newest=true&kind=attempt&kind=outcome&destination=gone", "", 200},
		{"GET", "/activity?kind=rejected&kind=refused", "", 200},
		{"POST", "/destinations/good/test", `{"type":"identify"}`, 200},
		{"POST", "/destinations/gone/test", "", 200},
		{"POST", "/destinations/none/test", "", 404},
		{"GET", "/problems", "", 200},
		{"GET", "/events", "", 200},
		{"GET", "/events?source=web&type=track&event=E&odd=false", "", 200},
		{"GET", "/events/" + event, "", 200},
		{"GET", "/events/none", "", 404},
		{"GET", "/events/" + event + "/schema", "", 200},
		{"GET", "/events/none/schema", "", 404},
		{"GET", "/events/" + event + "/like", "", 200},
		{"GET", "/events/none/like", "", 404},
		{"DELETE", "/events/" + event, "", 204},
		{"DELETE", "/events/" + event, "", 404},
		{"POST", "/deletions", `{"id":"gdpr 1/a","userIds":["u1","u2"],"source":"web"}`, 201},
		{"POST", "/deletions", `{"id":"gdpr 1/a","userIds":["u3"]}`, 409},
		{"GET", "/deletions", "", 200},
		{"GET", "/deletions/gdpr%201%2Fa", "", 200},
		{"GET", "/deletions/none", "", 404},
		{"GET", "/deletions/gdpr%201%2Fa/outcomes?userId=u1&limit=1", "", 200},
		{"GET", "/deletions/gdpr%201%2Fa/outcomes?destination=good&state=failed&offset=1", "", 200},
		{"POST", "/audiences/Big%20Spenders%2FEU/syncs?destination=good&dryRun=true", "u1\nu2\n", 200},
		{"POST", "/audiences/Big%20Spenders%2FEU/syncs?destination=good", "u1\nu2\n", 201},
		{"POST", "/audiences/Big%20Spenders%2FEU/syncs?destination=good&full=true", "u1\n\xff\n", 422},
		{"POST", "/audiences/Others/syncs", "u1\n", 422},
		{"POST", "/audiences/Others/syncs?destination=none", "u1\n", 404},
		{"POST", "/audiences/Others/syncs?destination=good", "\n", 422},
		{"POST", "/traits/Lifetime%20Value/syncs?source=web&destination=good&allowEmpty=true", `{"userId":"u1","value":42}`, 201},
		{"POST", "/traits/Big_Spenders_EU/syncs?destination=good", `{"userId":"u1","value":42}`, 409},
		{"GET", "/computations", "", 200},
		{"GET", "/computations/" + computation, "", 200},
		{"GET", "/computations/none", "", 404},
		{"GET", "/syncs/" + computation + "-1", "", 200},
		{"GET", "/syncs/none", "", 404},
		{"DELETE", "/computations/" + computation, "", 204},
	} {
		contract.check(c.method, c.path, c.body, c.status)
	}
	for _, run := range s.collector.ReplayRuns() {
		contract.check("GET", "/replays/"+run.ID, "", 200)
	}
	contract.allChecked()
}

// TestRateLimitOfTokensIsDocumented checks the response to too many invalid tokens, which every
// operation can return.
func TestRateLimitOfTokensIsDocumented(t *testing.T) {
	open := start(t, Options{Dev: true, Config: &config.Config{Listen: "127.0.0.1:0", Data: t.TempDir()}})
	contract := newContract(t, open.AdminURL())
	for path, item := range contract.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			answer := operation.Responses.Status(http.StatusTooManyRequests)
			if assert.NotNil(t, answer, "%s %s", method, path) {
				assert.Contains(t, *answer.Value.Description, "`too_many_wrong_tokens`", "%s %s", method, path)
			}
		}
	}
	guarded := start(t, Options{Dev: true, Config: &config.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Admin: config.Admin{Token: "right"}}})
	contract.url, contract.token = guarded.AdminURL(), "wrong"
	for range 10 {
		contract.check("GET", "/health", "", http.StatusUnauthorized)
	}
	contract.check("GET", "/health", "", http.StatusTooManyRequests)
}

// A contract checks a server against its OpenAPI document.
type contract struct {
	t       *testing.T
	url     string
	token   string // admin token for requests; may be empty
	doc     *openapi3.T
	checked map[*openapi3.Operation]bool
}

func newContract(t *testing.T, url string) *contract {
	t.Helper()
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.RegisteredBodyDecoder("text/plain"))
	res, err := http.Get(url + "/api/v1/openapi.yaml")
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	return &contract{t: t, url: url, doc: doc, checked: map[*openapi3.Operation]bool{}}
}

func (c *contract) check(method, path, body string, status int) {
	c.t.Helper()
	router, err := gorillamux.NewRouter(c.doc)
	require.NoError(c.t, err)
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+"/api/v1"+path, strings.NewReader(body))
	require.NoError(c.t, err)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	switch {
	case body == "":
	case strings.HasPrefix(path, "/audiences/"):
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	case strings.HasPrefix(path, "/traits/"):
		req.Header.Set("Content-Type", "application/x-ndjson")
	default:
		req.Header.Set("Content-Type", "application/json")
	}
	// Unlike the server, the router of the OpenAPI package does not support escaped slashes.
	routed := req.Clone(c.t.Context())
	routed.URL.Path, routed.URL.RawPath = strings.ReplaceAll(req.URL.EscapedPath(), "%2F", "-"), ""
	routed.Body = io.NopCloser(strings.NewReader(body))
	route, parameters, err := router.FindRoute(routed)
	require.NoError(c.t, err, "%s %s is not in the document", method, path)
	input := &openapi3filter.RequestValidationInput{
		Request: routed, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	assert.NoError(c.t, openapi3filter.ValidateRequest(c.t.Context(), input), "the request %s %s", method, path)

	res, err := http.DefaultClient.Do(req)
	require.NoError(c.t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, status, res.StatusCode, "%s %s: %s", method, path, answer)
	assert.NoError(c.t, openapi3filter.ValidateResponse(c.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(answer)),
		Options: input.Options,
	}), "the answer to %s %s: %s", method, path, answer)
	if status < 300 {
		c.checked[route.Operation] = true
	}
}

// allChecked fails the test for each operation that has not responded with success.
func (c *contract) allChecked() {
	for path, item := range c.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			assert.True(c.t, c.checked[operation], "%s %s is in the document, and was not tried with success", method, path)
		}
	}
}

// hook returns a destination with one URL, for all sources.
func hook(name, url string) config.Destination {
	return config.Destination{Destination: tracking.Destination{Name: name, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: url}}}}}
}

// start starts a service and stops it when the test ends.
func start(t *testing.T, o Options) *Service {
	t.Helper()
	o.Log, o.Version = discard(), "test"
	s, err := Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.shutdown()) })
	return s
}

func waitFor(t *testing.T, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatal("timed out")
		}
		time.Sleep(5 * time.Millisecond) // the other process cannot notify the test
	}
}
