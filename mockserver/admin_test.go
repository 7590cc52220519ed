package mockserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// object is a JSON object.
type object = map[string]any

// askAdmin calls the admin API and returns the status and the response.
func askAdmin(t *testing.T, srv *mockserver.Server, method, path, body string) (int, object) {
	t.Helper()
	res, text := ask(t, method, srv.URL+"/api/v1"+path, body, "Content-Type: application/json")
	if text == "" {
		return res.StatusCode, nil
	}
	return res.StatusCode, answer(t, text)
}

// delivered waits until a destination has delivered n calls.
func delivered(t *testing.T, srv *mockserver.Server, destination string, n int) {
	t.Helper()
	_, err := srv.Wait(within(t), n, mockserver.DeliveredTo(destination))
	require.NoError(t, err)
}

func TestAdminCreatesSourcesAndDestinations(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "site", WriteKey: "site-key-12345"}}})

	status, made := askAdmin(t, srv, "POST", "/sources", `{"name":"app","writeKey":"app-key-12345\n"}`)
	require.Equal(t, http.StatusUnprocessableEntity, status, made)
	require.Contains(t, fmt.Sprint(made), "begins or ends with white space")
	require.NotContains(t, fmt.Sprint(made), "app-key-12345")
	status, made = askAdmin(t, srv, "POST", "/sources", `{"name":"app"}`)
	require.Equal(t, http.StatusCreated, status, made)
	key := made["writeKey"].(string)
	require.NotEmpty(t, key)
	for _, secret := range []string{`hush\n`, ` hush`, `\ufeffhush`, `hu\u200bsh`} {
		status, made = askAdmin(t, srv, "POST", "/destinations", fmt.Sprintf(`{"name":"crm","sharedSecret":"%s","webhooks":[{"url":%q}]}`, secret, rec.URL))
		require.Equal(t, http.StatusUnprocessableEntity, status, made)
		require.Contains(t, fmt.Sprint(made), "sharedSecret")
		require.NotContains(t, fmt.Sprint(made), "hush")
	}
	status, made = askAdmin(t, srv, "POST", "/destinations", fmt.Sprintf(`{"name":"crm","sources":["app"],"sharedSecret":"hush","webhooks":[{"url":%q,"headers":{"X-Api-Key":"k1","X-Team":"growth"}}]}`, rec.URL))
	require.Equal(t, http.StatusCreated, status, made)
	assert.Equal(t, true, made["signed"])

	code, _ := post(t, srv.URL+"/v1/batch", key, track("m", 1))
	require.Equal(t, http.StatusOK, code)
	delivered(t, srv, "crm", 1)
	_, heads := rec.got()
	assert.Equal(t, "k1", heads[0].Get("X-Api-Key"))

	t.Run("secrets are not shown again", func(t *testing.T) {
		for _, path := range []string{"/sources", "/sources/app", "/destinations", "/destinations/crm", "/calls/app/m-0", "/calls/app/m-0/attempts"} {
			_, answer := askAdmin(t, srv, "GET", path, "")
			text, err := json.Marshal(answer)
			require.NoError(t, err)
			assert.NotContains(t, string(text), key, path)
			assert.NotContains(t, string(text), "hush", path)
			assert.NotContains(t, string(text), `"k1"`, path)
			assert.NotContains(t, string(text), "site-key", path)
		}
	})
	t.Run("a hidden header that is sent back stays", func(t *testing.T) {
		_, shown := askAdmin(t, srv, "GET", "/destinations/crm", "")
		back, err := json.Marshal(object{"webhooks": shown["webhooks"]})
		require.NoError(t, err)
		status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", string(back))
		require.Equal(t, http.StatusOK, status, answer)
		assert.Equal(t, true, answer["signed"], "what is absent stays as it is")
		post(t, srv.URL+"/v1/batch", key, track("n", 1))
		delivered(t, srv, "crm", 2)
		_, heads := rec.got()
		assert.Equal(t, "k1", heads[1].Get("X-Api-Key"))

		other := strings.ReplaceAll(string(back), "127.0.0.1", "localhost")
		status, answer = askAdmin(t, srv, "PATCH", "/destinations/crm", other)
		assert.Equal(t, http.StatusUnprocessableEntity, status, "another URL must not get it, and nobody wants the placeholder")
		assert.Contains(t, answer["message"], `webhooks[0].headers["X-Api-Key"]: is hidden`)
		status, _ = askAdmin(t, srv, "POST", "/destinations", fmt.Sprintf(`{"name":"new","webhooks":[{"url":%q,"headers":{"Authorization":"(hidden)"}}]}`, rec.URL))
		assert.Equal(t, http.StatusUnprocessableEntity, status)
		status, _ = askAdmin(t, srv, "PATCH", "/destinations/crm", fmt.Sprintf(`{"webhooks":[{"url":%q,"headers":{"Authorization":"(hidden)"}}]}`, rec.URL))
		assert.Equal(t, http.StatusUnprocessableEntity, status, "the URL has no such header")
		assert.Equal(t, map[string]string{"X-Api-Key": "k1", "X-Team": "growth"}, srv.Engine().Settings().Destinations[0].Webhooks[0].Headers)
	})
	t.Run("each of two entries with one URL keeps its own", func(t *testing.T) {
		two := `{"name":"two","webhooks":[{"url":"http://127.0.0.1:1/","headers":{"X-Token":"a"}},{"url":"http://127.0.0.1:1/","headers":{"X-Token":"b"}}]}`
		status, made := askAdmin(t, srv, "POST", "/destinations", two)
		require.Equal(t, http.StatusCreated, status, made)
		back, err := json.Marshal(object{"webhooks": made["webhooks"]})
		require.NoError(t, err)
		status, made = askAdmin(t, srv, "PATCH", "/destinations/two", string(back))
		require.Equal(t, http.StatusOK, status, made)
		webhooks := srv.Engine().Settings().Destinations[1].Webhooks
		assert.Equal(t, "a", webhooks[0].Headers["X-Token"])
		assert.Equal(t, "b", webhooks[1].Headers["X-Token"])
		status, _ = askAdmin(t, srv, "DELETE", "/destinations/two", "")
		require.Equal(t, http.StatusNoContent, status)
	})
	t.Run("what the configuration defines is read-only", func(t *testing.T) {
		status, answer := askAdmin(t, srv, "DELETE", "/sources/site", "")
		assert.Equal(t, http.StatusConflict, status)
		assert.Equal(t, "read_only", answer["code"])
		_, shown := askAdmin(t, srv, "GET", "/sources/site", "")
		assert.Equal(t, true, shown["readOnly"])
	})
	t.Run("a removed source is unknown", func(t *testing.T) {
		status, _ := askAdmin(t, srv, "DELETE", "/sources/app", "")
		assert.Equal(t, http.StatusNoContent, status)
		assert.Len(t, srv.Engine().Settings().Sources, 1)
	})
}

func TestAdminErrors(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "site", WriteKey: "site-key-12345"}},
		Destinations: []tracking.Destination{{Name: "hook", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1"}}}}},
	})
	for _, c := range []struct {
		method, path, body string
		status             int
		code, message      string
	}{
		{"GET", "/nothing", "", 404, "not_found", "no resource /api/v1/nothing; see /api/v1/openapi.yaml"},
		{"PUT", "/sources", "", 405, "method_not_allowed", "/api/v1/sources supports GET, POST, not PUT"},
		{"GET", "/sources/none", "", 404, "not_found", `unknown name: there is no source "none"`},
		{"POST", "/sources", `{"name":"site"}`, 409, "exists", `the name is taken: there is a source "site"`},
		{"POST", "/sources", `{"name":" x"}`, 422, "invalid", "name: contains an invisible character: use 1 to 100 printable characters"},
		{"POST", "/sources", `{"name":"x","key":"y"}`, 400, "invalid_json", `unknown field "key"; the fields are name, writeKey, callsPerSecond, redact`},
		{"POST", "/sources", `{"name":7}`, 400, "invalid_json", "name is a number; it must be a string"},
		{"POST", "/destinations", `{"batch":{"calls":"x"}}`, 400, "invalid_json", "batch.calls is a string; it must be a number"},
		{"POST", "/destinations/hook/replay", `{"types":5}`, 400, "invalid_json", "types is a number; it must be a list"},
		{"POST", "/destinations/hook/replay", `{"endedBefore":{}}`, 400, "invalid_json", `unknown field "endedBefore"; the fields are state, where, messageIds, sources, types, event, userId, text, since, until, cause, failedSince, failedUntil, dryRun`},
		{"POST", "/destinations/hook/replay", `{"selection":{}}`, 400, "invalid_json", `unknown field "selection"; the fields are state, where, messageIds, sources, types, event, userId, text, since, until, cause, failedSince, failedUntil, dryRun`},
		{"POST", "/sources", `{"name":`, 400, "invalid_json", "invalid JSON: unexpected EOF"},
		{"POST", "/sources", `{"name":"x"} {}`, 400, "invalid_json", "invalid JSON: unexpected data after the value at byte 12"},
		{"POST", "/destinations", `{"name":"x","type":"mail"}`, 422, "invalid", `type: is "mail": use "webhooks" or "relay"`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"ftp://a"}]}`, 422, "invalid", `webhooks[0].url: has the protocol "ftp": start it with https:// or http://`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"http://localhost"},{"url":"http://10.0.0.1"}]}`, 422, "invalid", `webhooks[1].url: points to 10.0.0.1, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["10.0.0.0/8"]`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"http://metadata.google.internal"}]}`, 422, "invalid", `webhooks[0].url: points to 169.254.169.254, which is not allowed: cloud metadata service 169.254.169.254/32: no setting allows it; use a different address`},
		{"GET", "/calls?limit=0", "", 400, "invalid_parameter", `parameter limit is "0"; use a number from 1 to 500`},
		{"GET", "/calls?since=noon", "", 400, "invalid_parameter", `parameter since is "noon"; use a time such as 2026-01-31T12:00:00Z`},
		{"GET", "/calls?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "", 400, "invalid_parameter", `parameter until is "2026-01-01T00:00:00Z"; use a time after since`},
		{"POST", "/destinations/hook/replay", `{"since":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, 422, "invalid", `until: is before since: use a later time`},
		{"POST", "/destinations/hook/replays", `{"failedSince":"2026-01-02T00:00:00Z","failedUntil":"2026-01-01T00:00:00Z"}`, 422, "invalid", `failedUntil: is before failedSince: use a later time`},
		{"GET", "/calls?state=lost", "", 400, "invalid_parameter", `parameter state is "lost"; use pending, delivered, failed or filtered`},
		{"GET", "/calls?type=trak", "", 400, "invalid_parameter", `parameter type is "trak"; use ` + text.Alternatives(fields.StoredTypes)},
		{"GET", "/calls?type=track&type=trak", "", 400, "invalid_parameter", `parameter type is "trak"; use ` + text.Alternatives(fields.StoredTypes)},
		{"GET", "/destinations/hook/failed?type=trak", "", 400, "invalid_parameter", `parameter type is "trak"; use ` + text.Alternatives(fields.StoredTypes)},
		{"GET", "/events?type=alias", "", 400, "invalid_parameter", `parameter type is "alias"; use ` + text.Alternatives(fields.EventTypes)},
		{"POST", "/destinations/hook/replay", `{"types":["track","trak"]}`, 422, "invalid", `types[1]: is "trak": use ` + strings.Join(fields.StoredTypes, ", ")},
		{"GET", "/rejections?limits=5", "", 400, "invalid_parameter", `unknown parameter "limits"; the parameters are limit, messageId, source, type, event, userId, text, since, until, where`},
		{"GET", "/sources?name=site", "", 400, "invalid_parameter", `unknown parameter "name"; this resource has no parameters`},
		{"POST", "/destinations/hook/replay?dryRun=true", "", 400, "invalid_parameter", `unknown parameter "dryRun"; this resource has no parameters`},
		{"GET", "/destinations/hook/failed?state=lost", "", 400, "invalid_parameter", `parameter state is "lost"; use failed or filtered`},
		{"GET", "/destinations/hook/failed?state=pending", "", 400, "invalid_parameter", `parameter state is "pending"; use failed or filtered`},
		{"GET", "/calls/site/none", "", 404, "not_found", `unknown name: no call "none" of source "site" is retained`},
		{"POST", "/destinations/none/pause", "", 404, "not_found", `unknown name: there is no destination "none"`},
		{"POST", "/destinations/hook/replay", `{"state":"pending"}`, 422, "invalid", `state: is "pending": use "failed", "delivered" or "filtered"`},
		{"POST", "/calls/site/m/replay", `{}`, 422, "invalid", "destination: is empty: use a name from /api/v1/destinations"},
		{"PATCH", "/destinations/hook", `{"enabled":false}`, 409, "read_only", `the configuration defines it: change destination "hook" there`},
	} {
		status, answer := askAdmin(t, srv, c.method, c.path, c.body)
		assert.Equal(t, c.status, status, "%s %s", c.method, c.path)
		assert.Equal(t, c.code, answer["code"], "%s %s %s", c.method, c.path, c.body)
		assert.Equal(t, c.message, answer["message"], "%s %s %s", c.method, c.path, c.body)
	}
}

func TestAdminErrorsRepeatLittleOfTheirInput(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "site", WriteKey: "site-key"}}, Destinations: []tracking.Destination{hook("hook", "http://127.0.0.1:1")}})
	long := strings.Repeat("Q", 100_000)
	path := long[:10_000] // of a URL, which is not a body
	for _, c := range []struct{ method, path, body string }{
		{"GET", "/destinations/" + path, ""},
		{"PATCH", "/destinations/" + path, `{"enabled":false}`},
		{"DELETE", "/destinations/" + path, ""},
		{"POST", "/destinations/" + path + "/pause", ""},
		{"POST", "/destinations/" + path + "/test", ""},
		{"POST", "/destinations/" + path + "/replay", `{}`},
		{"POST", "/destinations/" + path + "/replays", `{}`},
		{"GET", "/sources/" + path, ""},
		{"DELETE", "/sources/" + path, ""},
		{"GET", "/replays/" + path, ""},
		{"GET", "/calls/" + path + "/" + path, ""},
		{"POST", "/calls/" + path + "/" + path + "/replay", `{"destination":"` + long + `"}`},
		{"POST", "/calls/" + path + "/" + path + "/replay", `{"destination":"hook"}`},
		{"GET", "/deletions/" + path, ""},
		{"GET", "/audiences/" + path, ""},
		{"GET", "/calls?where=" + path, ""},
		{"GET", "/calls?" + path + "=1", ""},
		{"GET", "/" + path, ""},
		{"PUT", "/sources/" + path, ""},
		{"POST", "/destinations", `{"webhooks":[{"headers":{"` + long + `":7}}]}`},
		{"POST", "/sources", `{"name":"` + long + `"}`},
		{"POST", "/sources", `{"name":"x","` + long + `":"y"}`},
		{"POST", "/destinations", `{"name":"` + long + `"}`},
		{"POST", "/destinations", `{"name":"x","type":"` + long + `"}`},
		{"POST", "/destinations", `{"name":"x","sources":["` + long + `"]}`},
		{"POST", "/destinations", `{"name":"x","order":"` + long + `"}`},
		{"POST", "/destinations", `{"name":"x","order":"user","onFailure":"` + long + `"}`},
		{"POST", "/destinations", `{"name":"x","types":{"allow":["` + long + `"]}}`},
		{"POST", "/destinations", `{"name":"x","events":{"deny":["*` + long + `"]}}`},
		{"POST", "/destinations", `{"name":"x","signature":"` + long + `"}`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"http://` + long + `:QQ/"}]}`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"` + long + `://a"}]}`},
		{"POST", "/destinations", `{"name":"x","webhooks":[{"url":"http://a.example","headers":{"` + long + `":"\n"}}]}`},
		{"POST", "/destinations/hook/replay", `{"state":"` + long + `"}`},
		{"POST", "/destinations/hook/replay", `{"types":["` + long + `"]}`},
		{"POST", "/destinations/hook/replay", `{"where":["` + long + `"]}`},
		{"POST", "/destinations/hook/replay", `{"where":["prop.a:\"` + long + `"]}`},
		{"POST", "/destinations/hook/test", `{"type":"` + long + `"}`},
		{"POST", "/deletions", `{"userIds":["u"],"source":"` + long + `"}`},
		{"POST", "/deletions", `{"userIds":["u"],"id":"` + long + `"}`},
		{"POST", "/deletions", `{"userIds":["` + long + `"]}`},
	} {
		status, answer := askAdmin(t, srv, c.method, c.path, c.body)
		request := fmt.Sprintf("%s %.40s %.60s", c.method, c.path, c.body)
		assert.GreaterOrEqual(t, status, 400, request)
		assert.LessOrEqual(t, strings.Count(fmt.Sprint(answer["message"]), "Q"), 200, request)
		fields, _ := answer["fields"].([]any)
		for _, f := range fields {
			assert.LessOrEqual(t, strings.Count(fmt.Sprint(f), "Q"), 200, request)
		}
	}
}

func TestAdminPagesThroughCalls(t *testing.T) {
	srv := mockserver.RunT(t)
	for i := range 7 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprintf("batch %d/x%%", i), 100))
	}
	seen, path := 0, "/calls?limit=300"
	for query := ""; ; {
		_, page := askAdmin(t, srv, "GET", path+query, "")
		for _, c := range page["calls"].([]any) {
			assert.Equal(t, 700-seen, int(c.(object)["seq"].(float64)))
			seen++
		}
		if page["next"] == nil {
			break
		}
		query = fmt.Sprintf("&before=%.0f", page["next"])
	}
	assert.Equal(t, 700, seen)

	count := func(query string) int {
		_, page := askAdmin(t, srv, "GET", "/calls?limit=500&"+query, "")
		return len(page["calls"].([]any))
	}
	assert.Equal(t, 7, count("userId=u7"))
	assert.Equal(t, 0, count("type=page&type=identify"))
	assert.Equal(t, 500, count("type=page&type=track"))
	assert.Equal(t, 100, count("text=BATCH+3"))
	assert.Equal(t, 0, count("until="+url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339))))
	assert.Equal(t, 0, count("state=delivered"))

	source := srv.Calls()[0].Source
	status, call := askAdmin(t, srv, "GET", "/calls/"+url.PathEscape(source)+"/"+url.PathEscape("batch 3/x%-5"), "")
	require.Equal(t, http.StatusOK, status, call)
	assert.Equal(t, "u5", call["body"].(object)["userId"])
}

// TestCallsBeforeTheirFirstAttemptArePending pauses the destinations, so that no call is attempted.
func TestCallsBeforeTheirFirstAttemptArePending(t *testing.T) {
	other := hook("other", "http://127.0.0.1:1")
	other.Sources = []string{"ios"}
	srv := mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}, {Name: "ios", WriteKey: "ios"}},
		Destinations: []tracking.Destination{hook("crm", "http://127.0.0.1:1"), hook("ads", "http://127.0.0.1:1"), other},
	})
	for _, d := range []string{"crm", "ads", "other"} {
		require.NoError(t, srv.Pause(t.Context(), d))
	}
	post(t, srv.URL+"/v1/batch", "key", track("m", 1))
	for _, query := range []string{"", "state=pending", "destination=crm", "destination=ads&state=pending"} {
		_, page := askAdmin(t, srv, "GET", "/calls?"+query, "")
		require.Len(t, page["calls"], 1, query)
		call := page["calls"].([]any)[0].(object)
		assert.Equal(t, []any{
			object{"destination": "ads", "state": "pending", "at": call["receivedAt"], "attempt": 0.0},
			object{"destination": "crm", "state": "pending", "at": call["receivedAt"], "attempt": 0.0},
		}, call["destinations"], query)
	}
	for _, query := range []string{"state=delivered", "destination=other", "destination=other&state=pending"} {
		_, page := askAdmin(t, srv, "GET", "/calls?"+query, "")
		assert.Empty(t, page["calls"], query)
	}
}

func TestAdminReplays(t *testing.T) {
	var refuse atomic.Bool
	refuse.Store(true)
	rec := newReceiver(t, func(n int, w http.ResponseWriter, _ *http.Request) {
		if refuse.Load() {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	srv := mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "site", WriteKey: "site-key-12345"}},
		Destinations: []tracking.Destination{{Name: "hook", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: rec.URL}}}}},
	})
	post(t, srv.URL+"/v1/batch", "site-key-12345", track("m", 250))
	_, err := srv.Wait(within(t), 250, func(r *tracking.Record) bool {
		o, ok := r.State("hook")
		return ok && o.State == tracking.StateFailed
	})
	require.NoError(t, err)
	_, failed := askAdmin(t, srv, "GET", "/destinations/hook/failed?limit=200", "")
	assert.Len(t, failed["calls"], 200)
	assert.Equal(t, true, failed["more"])

	refuse.Store(false)
	replay := func(path, body string) (int, object) { return askAdmin(t, srv, "POST", path, body) }
	_, dry := replay("/destinations/hook/replay", `{"dryRun":true,"userId":"u9"}`)
	assert.Equal(t, object{"destination": "hook", "calls": 1.0, "dryRun": true}, dry)
	_, one := replay("/calls/site/m-9/replay", `{"destination":"hook"}`)
	assert.Equal(t, object{"destination": "hook", "calls": 1.0, "dryRun": false}, one)
	delivered(t, srv, "hook", 1)
	status, second := replay("/calls/site/m-9/replay", `{"destination":"hook"}`)
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, "replayed_recently", second["code"])
	_, rest := replay("/destinations/hook/replay", "")
	assert.Equal(t, 249.0, rest["calls"])
	delivered(t, srv, "hook", 250)
	_, none := replay("/destinations/hook/replay", "")
	assert.Equal(t, 0.0, none["calls"])
	_, again := replay("/destinations/hook/replay", `{"state":"delivered","messageIds":["m-1","no","m-2"]}`)
	assert.Equal(t, object{"destination": "hook", "calls": 2.0, "dryRun": false, "missing": []any{"no"}}, again)
	delivered(t, srv, "hook", 250)
	bodies, _ := rec.got()
	assert.Len(t, bodies, 250+250+2)

	_, ledger := askAdmin(t, srv, "GET", "/ledger", "")
	assert.Equal(t, object{"holds": true, "destinations": []any{object{
		"destination": "hook", "accepted": 250.0, "delivered": 250.0, "failed": 0.0, "filtered": 0.0, "pending": 0.0, "lost": 0.0, "holds": true,
	}}}, ledger)
	_, attempts := askAdmin(t, srv, "GET", "/calls/site/m-1/attempts", "")
	assert.Len(t, attempts["attempts"], 3)
	_, run := replay("/destinations/hook/replays", `{"state":"delivered","messageIds":["no","m-3","none"]}`)
	assert.Equal(t, []any{1.0, []any{"no", "none"}}, []any{run["expected"], run["missing"]})
}

func TestAdminPausesAndRemoves(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t)
	status, answer := askAdmin(t, srv, "POST", "/destinations", fmt.Sprintf(`{"name":"a/b","webhooks":[{"url":%q}]}`, rec.URL))
	require.Equal(t, http.StatusCreated, status, answer)
	status, paused := askAdmin(t, srv, "POST", "/destinations/a%2Fb/pause", "")
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, true, paused["status"].(object)["paused"])
	post(t, srv.URL+"/v1/batch", "key", track("m", 3))

	status, kept := askAdmin(t, srv, "DELETE", "/destinations/a%2Fb", "")
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, `destination "a/b" has 3 pending calls; wait for them, or discard them with ?discard=true`, kept["message"])
	assert.Empty(t, srv.Calls(mockserver.DeliveredTo("a/b")))
	askAdmin(t, srv, "POST", "/destinations/a%2Fb/resume", "")
	delivered(t, srv, "a/b", 3)

	askAdmin(t, srv, "POST", "/destinations/a%2Fb/pause", "")
	post(t, srv.URL+"/v1/batch", "key", track("n", 3))
	status, _ = askAdmin(t, srv, "DELETE", "/destinations/a%2Fb?discard=true", "")
	assert.Equal(t, http.StatusNoContent, status)
	_, list := askAdmin(t, srv, "GET", "/destinations", "")
	assert.Empty(t, list["destinations"])
}

func TestAdminListsRejections(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "site", WriteKey: "site-key-12345"}}})
	post(t, srv.URL+"/v1/track", "site-key-12345", `{"userId":"u"}`)
	post(t, srv.URL+"/v1/track", "wrong", `{"userId":"u","event":"E"}`)
	_, answer := askAdmin(t, srv, "GET", "/rejections", "")
	require.Len(t, answer["calls"], 1)
	assert.Equal(t, `{"userId":"u"}`, answer["calls"].([]any)[0].(object)["body"])
	assert.Equal(t, "track", answer["calls"].([]any)[0].(object)["type"], "of its endpoint")
	require.Len(t, answer["requests"], 1)
	assert.Equal(t, "unknown_write_key", answer["requests"].([]any)[0].(object)["code"])
	serve(srv.Engine(), http.MethodGet, "/v1/batch", "")
	_, answer = askAdmin(t, srv, "GET", "/rejections", "")
	assert.Equal(t, "GET", answer["requests"].([]any)[0].(object)["method"])
}

func TestDestinationStateFollowsOutcomes(t *testing.T) {
	answers := atomic.Int32{}
	answers.Store(http.StatusNotFound)
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(answers.Load())) })
	srv := mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}, {Name: "silent", WriteKey: "silent"}},
		Destinations: []tracking.Destination{hook("hook", rec.URL), {Name: "idle", Sources: []string{"silent"}, Settings: hook("idle", rec.URL).Settings}},
	})
	state := func(name string) string {
		_, d := askAdmin(t, srv, "GET", "/destinations/"+name, "")
		return d["status"].(object)["state"].(string)
	}
	assert.Equal(t, "idle", state("hook"))
	post(t, srv.URL+"/v1/batch", "key", track("m", 120))
	_, err := srv.Wait(within(t), 120, mockserver.InState("hook", tracking.StateFailed))
	require.NoError(t, err)
	assert.Equal(t, "failing", state("hook"), "120 failed of 120")
	_, page := get(t, srv.URL+"/destinations")
	assert.Contains(t, page, "0 %<small>of 120 attempts")
	assert.NotContains(t, page, "Delivering")
	assert.Contains(t, page, "Idle")

	answers.Store(http.StatusOK)
	post(t, srv.URL+"/v1/batch", "key", track("n", 40))
	delivered(t, srv, "hook", 40)
	assert.Equal(t, "delivering", state("hook"))
	_, page = get(t, srv.URL+"/destination?name=hook")
	assert.Contains(t, page, "24 of 64 recent attempts failed.")
	assert.Equal(t, "idle", state("idle"))
	require.NoError(t, srv.Pause(t.Context(), "hook"))
	assert.Equal(t, "paused", state("hook"))
}

// With AnyWriteKey a write key is not a secret and becomes the source's name, shortened
// if necessary. Configured sources keep their names.
func TestAnyWriteKeyNamesItsSource(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{AnyWriteKey: true, Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}})
	for _, key := range []string{"ios-app", "web-key", "web", strings.Repeat("x", 101), "a\tb"} {
		post(t, srv.URL+"/v1/batch", key, track("m", 1))
	}
	var sources []string
	for _, c := range srv.Calls() {
		sources = append(sources, c.Source)
	}
	require.Len(t, sources, 5)
	assert.Equal(t, []string{"ios-app", "web"}, sources[:2])
	assert.Regexp(t, `^w…[0-9a-f]{8}$`, sources[2], "the name of another source")
	assert.Regexp(t, `^xxxx…[0-9a-f]{8}$`, sources[3])
	assert.Regexp(t, `^a…[0-9a-f]{8}$`, sources[4])
	_, page := get(t, srv.URL+"/")
	assert.Contains(t, page, "ios-app")
}

// After a restart, the outcome of earlier calls is unknown.
func TestOutcomeBeforeRestartIsUnknown(t *testing.T) {
	history := history.New(0)
	history.RecordUnknown(func(*tracking.Call) {})
	srv := mockserver.RunEngine(t, engine.Config{
		History: history, Sources: []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []tracking.Destination{hook("one", "http://127.0.0.1:1"), hook("other", "http://127.0.0.1:1")},
	})
	for _, d := range []string{"one", "other"} {
		require.NoError(t, srv.Pause(t.Context(), d))
	}
	call, err := event.ReadCall("web", []byte(`{"type":"track","event":"E","userId":"u","messageId":"m","receivedAt":"`+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}`))
	require.NoError(t, err)
	history.Observe(tracking.Ended{CallID: "m", Source: "web", Destination: "one", At: time.Now(), Attempt: 1, Outcome: tracking.Outcome{State: tracking.StateDelivered}, Call: &call})

	_, page := get(t, srv.URL+"/")
	assert.Contains(t, page, `class="chip is-unknown"`)
	assert.NotContains(t, page, "is-pending")
	_, page = get(t, srv.URL+"/?status=pending")
	assert.Contains(t, page, "<b>0</b> of 1 call")
	_, page = get(t, srv.URL+"/?status=unknown")
	ref := find(t, page, `data-ref="([0-9a-f]+)"`)
	_, page = get(t, srv.URL+"/calls/"+ref, "X-Fragment", "1")
	assert.Contains(t, page, "unknown")
	_, page = get(t, srv.URL+"/replay")
	assert.NotContains(t, page, "waits")
	status, answer := askAdmin(t, srv, "POST", "/calls/web/m/replay", `{"destination":"other"}`)
	assert.Equal(t, http.StatusNotFound, status, answer)

	history.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: []tracking.Call{call}}})
	_, page = get(t, srv.URL+"/")
	assert.Contains(t, page, `class="chip is-pending"`, "it was this process that took it")
}

func TestPatchAcceptsAnUnchangedURLThatThePolicyRefuses(t *testing.T) {
	srv := mockserver.RunT(t)
	require.NoError(t, srv.Engine().AddDestination(t.Context(), tracking.Destination{
		Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://10.0.0.1/hook"}}},
	}))
	for _, tt := range []struct {
		name, body string
		status     int
	}{
		{"another setting", `{"enabled":false}`, 200},
		{"the same URL", `{"webhooks":[{"url":"http://10.0.0.1/hook"}]}`, 200},
		{"another refused URL", `{"webhooks":[{"url":"http://10.0.0.2/hook"}]}`, 422},
		{"an additional refused URL", `{"webhooks":[{"url":"http://10.0.0.1/hook"},{"url":"http://10.0.0.2/hook"}]}`, 422},
		{"an allowed URL", `{"webhooks":[{"url":"http://127.0.0.1:1/hook"}]}`, 200},
		{"the refused URL again", `{"webhooks":[{"url":"http://10.0.0.1/hook"}]}`, 422},
	} {
		status, response := askAdmin(t, srv, "PATCH", "/destinations/crm", tt.body)
		assert.Equal(t, tt.status, status, "%s: %v", tt.name, response)
	}
}

func TestRejectionsCanBeFilteredByAnUnknownType(t *testing.T) {
	srv := mockserver.RunT(t)
	status, response := askAdmin(t, srv, "GET", "/rejections?type=trak", "")
	assert.Equal(t, http.StatusOK, status, "%v", response)
}

func TestHistoryOfRemovedNames(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t)
	status, source := askAdmin(t, srv, "POST", "/sources", `{"name":"site"}`)
	require.Equal(t, http.StatusCreated, status, source)
	status, response := askAdmin(t, srv, "POST", "/destinations", fmt.Sprintf(`{"name":"crm","webhooks":[{"url":%q}]}`, rec.URL))
	require.Equal(t, http.StatusCreated, status, response)
	key := source["writeKey"].(string)
	post(t, srv.URL+"/v1/batch", key, track("m", 3))
	post(t, srv.URL+"/v1/track", key, `{"userId":"u"}`)
	delivered(t, srv, "crm", 3)
	for _, path := range []string{"/sources/site", "/destinations/crm"} {
		status, response := askAdmin(t, srv, "DELETE", path, "")
		require.Equal(t, http.StatusNoContent, status, response)
	}
	for _, c := range []struct {
		path, list string
		want       int
	}{
		{"/calls?source=site", "calls", 3},
		{"/calls?destination=crm", "calls", 3},
		{"/calls?source=site&destination=crm&state=delivered", "calls", 3},
		{"/calls?source=none", "calls", 0},
		{"/calls?destination=none", "calls", 0},
		{"/events?source=site", "events", 1},
		{"/rejections?source=site", "calls", 1},
		{"/rejections?source=none", "calls", 0},
	} {
		status, response := askAdmin(t, srv, "GET", c.path, "")
		assert.Equal(t, http.StatusOK, status, "%s: %v", c.path, response)
		assert.Len(t, response[c.list], c.want, "%s: %v", c.path, response)
	}
}
