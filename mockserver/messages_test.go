package mockserver_test

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// ask sends a request with header lines such as "Name: value". The response body is
// already read.
func ask(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if req.Header.Add(name, value); name == "Host" {
			req.Host = value
		}
	}
	return exchange(t, http.DefaultClient, req)
}

// exchange sends a request and reads the response body.
func exchange(t *testing.T, client *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(body)
}

// answer decodes a JSON response.
func answer(t *testing.T, body string) map[string]any {
	t.Helper()
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &got), body)
	return got
}

const ok = `{"success": true}`

func TestSettingsEndpointNamesTheHost(t *testing.T) {
	hook := webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1/"}}}
	srv := mockserver.RunT(t, mockserver.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "k1"}, {Name: "ios", WriteKey: "k2"}},
		Destinations: []tracking.Destination{{Name: "hook", Sources: []string{"web"}, Settings: hook},
			{Name: "off", Disabled: true, Settings: hook}},
	})
	host := strings.TrimPrefix(srv.URL, "http://")
	for key, unbundled := range map[string][]any{"k1": {"Webhooks"}, "k2": {}} {
		for _, path := range []string{"/v1/projects/" + key + "/settings", "/projects/" + key + "/settings/"} {
			res, text := ask(t, http.MethodGet, srv.URL+path, "", "Origin: https://shop.example")
			assert.Equal(t, http.StatusOK, res.StatusCode)
			assert.Equal(t, "https://shop.example", res.Header.Get("Access-Control-Allow-Origin"))
			got := answer(t, text)
			assert.Equal(t, map[string]any{
				"apiKey": key, "apiHost": host + "/v1", "protocol": "http", "retryQueue": true, "addBundledMetadata": true,
				"unbundledIntegrations": unbundled, "maybeBundledConfigIds": map[string]any{},
			}, got["integrations"].(map[string]any)["Segment.io"])
			assert.IsType(t, map[string]any{}, got["plan"])
			assert.IsType(t, map[string]any{}, got["edgeFunction"])
		}
	}
	_, text := ask(t, http.MethodGet, srv.URL+"/v1/projects/k1/settings", "", "X-Forwarded-Proto: https")
	assert.Equal(t, "https", answer(t, text)["integrations"].(map[string]any)["Segment.io"].(map[string]any)["protocol"])
	res, text := ask(t, http.MethodGet, srv.URL+"/v1/projects/nobody/settings", "")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.Equal(t, "unknown_write_key", answer(t, text)["code"])
}

func TestSettingsEndpointHasRetrySettings(t *testing.T) {
	for config, want := range map[string]any{
		``:   nil,
		`{}`: map[string]any{},
		`{"backoffConfig":{"maxRetryCount":3,"statusCodeOverrides":{"404":"retry"}},"rateLimitConfig":{"enabled":false}}`: map[string]any{
			"backoffConfig":   map[string]any{"maxRetryCount": 3.0, "statusCodeOverrides": map[string]any{"404": "retry"}},
			"rateLimitConfig": map[string]any{"enabled": false},
		},
	} {
		c := mockserver.Config{InProcess: true}
		if config != "" {
			c.HTTPConfig = json.RawMessage(config)
		}
		srv := mockserver.RunT(t, c)
		res, err := srv.Client().Get(srv.URL + "/v1/projects/k1/settings")
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		service := answer(t, string(text))["integrations"].(map[string]any)["Segment.io"].(map[string]any)
		assert.Equal(t, want, service["httpConfig"])
		assert.Equal(t, want != nil, len(service) == 8)
	}
	for _, wrong := range []string{`{`, `[]`, `3`, `null`, `"x"`} {
		_, err := mockserver.Run(mockserver.Config{HTTPConfig: json.RawMessage(wrong)})
		require.ErrorContains(t, err, "HTTPConfig is ")
	}
}

func TestRetryCountIsRecorded(t *testing.T) {
	srv := mockserver.RunT(t)
	post := func(id string, header ...string) {
		res, _ := ask(t, http.MethodPost, srv.URL+"/v1/batch", `{"writeKey":"k","batch":[{"type":"track","event":"E","userId":"u","messageId":"`+id+`"}]}`, header...)
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	for id, header := range map[string]string{"none": "", "0": "0", "3": "3", "-1": "-1", "x": "x", "99999999999": "99999999999"} {
		want := 0
		if id == "3" {
			want = 3
		}
		if header == "" {
			post(id)
		} else {
			post(id, "X-Retry-Count: "+header)
		}
		record, ok := srv.Call(id)
		require.True(t, ok)
		assert.Equal(t, want, record.RetryCount, id)
	}
	post("none", "X-Retry-Count: 2") // a retry after the first response was lost
	record, _ := srv.Call("none")
	assert.Equal(t, 2, record.RetryCount)
	assert.Equal(t, 1, record.Repeats)
	srv.Expect(t, mockserver.WithID("3"), mockserver.Retried(3))
	srv.ExpectN(t, 4, mockserver.Retried(0))
	_, err := srv.Within(time.Nanosecond).Wait(t.Context(), 1, mockserver.Retried(1))
	require.Error(t, err)
	assert.Regexp(t, `X-Retry-Count is [023], want 1`, err.Error())
	_, text := ask(t, http.MethodGet, srv.URL+"/api/v1/calls/k/none", "")
	assert.Regexp(t, `"retryCount": ?2\b`, text)
	key := event.KeyOf(record.Call.Source, "none")
	_, page := ask(t, http.MethodGet, srv.URL+"/?call="+hex.EncodeToString(key[:]), "")
	assert.Contains(t, page, "X-Retry-Count")
}

func TestMessagesAreDrainedWithoutVaryingFields(t *testing.T) {
	srv := mockserver.RunT(t)
	messages := func() []map[string]any {
		_, text := ask(t, http.MethodPost, srv.URL+"/messages", "")
		var got []map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		return got
	}
	assert.Equal(t, []map[string]any{}, messages())
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"event":"Hello World","type":"track","userId":"u","messageId":"m1","timestamp":"2026-01-31T12:00:00Z"},
		{"type":"identify","userId":"u","traits":{"n":12345678901234567890}}],"sentAt":"2026-01-31T12:00:00Z"}`)
	assert.Equal(t, []map[string]any{
		{"event": "Hello World", "type": "track", "userId": "u"},
		{"type": "identify", "userId": "u", "traits": map[string]any{"n": 12345678901234567890.0}},
	}, messages())
	assert.Empty(t, messages(), "they were drained")
	assert.Len(t, srv.Calls(), 2, "but only for /messages")
	post(t, srv.URL+"/v1/page", "key", `{"userId":"u","name":"Home"}`)
	srv.Clear()
	assert.Empty(t, messages())
	post(t, srv.URL+"/v1/page", "key", `{"userId":"u","name":"Home"}`)
	assert.Equal(t, []map[string]any{{"type": "page", "userId": "u", "name": "Home"}}, messages())
}

func TestMessagesOfAPreviousRunAreNotNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := history.New(0)
		c := newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"Before"}`)
		time.Sleep(time.Second)
		c = newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"After"}`)
		res := serve(admin.New(c, ""), http.MethodGet, "/messages", "")
		assert.Equal(t, `[{"userId":"u","name":"After","type":"page"}]`+"\n", res.Body.String())
	})
}

func TestMessagesAreOnlyServedInTests(t *testing.T) {
	res := serve(admin.New(newCollector(t, engine.Config{}), ""), http.MethodGet, "/messages", "")
	assert.Equal(t, http.StatusNotFound, res.Code)
}

func TestHealthAndReadiness(t *testing.T) {
	srv := mockserver.RunT(t)
	for path, status := range map[string]string{"/health": "ok", "/ready": "ready"} {
		res, text := ask(t, http.MethodGet, srv.URL+path, "")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, status, answer(t, text)["status"])
	}
	srv.Engine().Drain()
	res, text := ask(t, http.MethodGet, srv.URL+"/ready", "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Equal(t, "unavailable", answer(t, text)["status"])
	res, _ = ask(t, http.MethodGet, srv.URL+"/health", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

func TestReadingMessagesDoesNotDrain(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "k", track("m", 1))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodGet} {
		ask(t, method, srv.URL+"/messages", "")
		ask(t, method, srv.URL+"/messages?raw", "")
	}
	_, text := ask(t, http.MethodGet, srv.URL+"/messages?drain", "")
	assert.Contains(t, text, "Tested")
	_, text = ask(t, http.MethodGet, srv.URL+"/messages", "")
	assert.Equal(t, "[]\n", text)
}

// The test API refuses requests from pages of other sites and requests with foreign
// host names.
func TestMessagesRefuseForeignSites(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "k", track("m", 1))
	for _, request := range []string{"GET /messages?drain", "POST /messages?drain"} {
		for _, header := range []string{
			"Host: evil.example", "Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
		} {
			method, path, _ := strings.Cut(request, " ")
			res, text := ask(t, method, srv.URL+path, "", header)
			assert.Contains(t, []int{http.StatusForbidden, http.StatusMisdirectedRequest}, res.StatusCode, "%s %s", request, header)
			assert.NotContains(t, text, "Tested")
			assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	res, _ := ask(t, http.MethodGet, srv.URL+"/api/v1/calls", "", "Origin: https://evil.example")
	assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
	_, text := ask(t, http.MethodGet, srv.URL+"/messages", "", "Sec-Fetch-Site: none")
	assert.Contains(t, text, "Tested", "nothing was drained")
}
