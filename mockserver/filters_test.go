package mockserver_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// shop is a batch with calls for each filter rule below.
const shop = `{"batch":[
	{"type":"track","userId":"u","event":"Order Completed","messageId":"sent 1"},
	{"type":"track","userId":"u","event":"Order Tested","messageId":"denied event"},
	{"type":"track","userId":"u","event":"Viewed","messageId":"other event"},
	{"type":"identify","userId":"u","messageId":"sent 2"},
	{"type":"page","userId":"u","name":"Home","messageId":"denied type"}]}`

// Filters set in Go, by the API and by the form have the same effect: the ledger counts
// filtered calls, and each filtered call has a reason.
func TestFiltersOfADestination(t *testing.T) {
	filters := tracking.Destination{
		Types:  tracking.Filter{Deny: []string{"page"}},
		Events: tracking.Filter{Allow: []string{"Order *"}, Deny: []string{"Order Tested"}},
	}
	for name, set := range map[string]func(*testing.T, *mockserver.Server, tracking.Destination){
		"in Go": func(t *testing.T, srv *mockserver.Server, d tracking.Destination) {
			d.Types, d.Events = filters.Types, filters.Events
			require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
		},
		"by the API": func(t *testing.T, srv *mockserver.Server, d tracking.Destination) {
			require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
			status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", `{"types":{"deny":["page"]},"events":{"allow":["Order *"],"deny":["Order Tested"]}}`)
			require.Equal(t, http.StatusOK, status, answer)
		},
		"by the form": func(t *testing.T, srv *mockserver.Server, d tracking.Destination) {
			require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
			res, page := submit(t, srv.URL+"/destinations/save", url.Values{
				"name": {"crm"}, "new": {"false"}, "enabled": {"true"}, "url0": {d.Webhooks[0].URL},
				"types.deny": {"page\r\n"}, "events.allow": {" Order * \r\n\r\n"}, "events.deny": {"Order Tested"},
			})
			require.Equal(t, http.StatusOK, res.StatusCode, page)
		},
	} {
		t.Run(name, func(t *testing.T) {
			receiver := newReceiver(t, func(int, http.ResponseWriter, *http.Request) {})
			srv := mockserver.RunT(t)
			set(t, srv, hook("crm", receiver.URL))
			post(t, srv.URL+"/v1/batch", "key", shop)
			delivered(t, srv, "crm", 2)
			_, err := srv.Wait(within(t), 3, func(r *tracking.Record) bool {
				o, _ := r.State("crm")
				return o.State == tracking.StateFiltered
			})
			require.NoError(t, err)
			reasons := map[string]string{}
			for _, r := range srv.Records() {
				o, _ := r.State("crm")
				reasons[r.Call.ID] = o.Reason
			}
			assert.Equal(t, map[string]string{
				"sent 1": "", "sent 2": "", "denied type": "its type is in types.deny",
				"denied event": "its event matches events.deny", "other event": "its event matches no pattern in events.allow",
			}, reasons)
			ledger, err := srv.Engine().Ledger(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []int64{5, 2, 3}, []int64{ledger[0].Accepted, ledger[0].Delivered, ledger[0].Filtered})

			_, shown := askAdmin(t, srv, "GET", "/destinations/crm", "")
			assert.Equal(t, object{"deny": []any{"page"}}, shown["types"])
			assert.Equal(t, object{"allow": []any{"Order *"}, "deny": []any{"Order Tested"}}, shown["events"])
			_, page := get(t, srv.URL+"/destination?name=crm")
			assert.Regexp(t, `name="events.allow"[^>]*>\s*Order \*<`, page)
		})
	}
}

func TestPreviewOfFilters(t *testing.T) {
	srv := mockserver.RunT(t)
	form := url.Values{"new": {"true"}, "url0": {""}, "types.deny": {"page"}, "events.allow": {"Order *"}}
	_, page := submit(t, srv.URL+"/destinations/preview", form)
	assert.Contains(t, page, "No calls yet.")
	post(t, srv.URL+"/v1/batch", "key", shop)
	_, page = submit(t, srv.URL+"/destinations/preview", form)
	for _, want := range []string{
		"<b>3</b> of the last 5 calls would be delivered.", "1 would be filtered: <bdi>its event matches no pattern in events.allow</bdi>.", "1 would be filtered: <bdi>its type is in types.deny</bdi>.",
	} {
		assert.Contains(t, page, want)
	}
	form["events.allow"] = []string{"Or*der"}
	_, page = submit(t, srv.URL+"/destinations/preview", form)
	assert.Contains(t, page, `Include events is &#34;Or*der&#34;, with a * that is not at its end`)
	assert.NotContains(t, page, "would go.")

	status, answer := askAdmin(t, srv, "POST", "/destinations/preview", `{"sources":["key"],"types":{"allow":["page"]}}`)
	require.Equal(t, http.StatusOK, status)
	assert.Equal(t, object{"calls": 5.0, "sent": 1.0, "reasons": []any{object{"reason": "its type is not in types.allow", "calls": 4.0}}}, answer)
	assert.Empty(t, srv.Engine().Settings().Destinations)
}

func TestInvalidFilters(t *testing.T) {
	err := tracking.Destination{
		Types:    tracking.Filter{Allow: []string{"track", "tracks"}, Deny: []string{""}},
		Events:   tracking.Filter{Allow: []string{"A", "*", " "}, Deny: []string{"*A", "A**"}},
		Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "https://example.com"}}},
	}.Validate()
	assert.EqualError(t, err, strings.ReplaceAll(strings.TrimSpace(`
types.allow[1]: is "tracks", which is not a type of call: use some of TYPES
types.deny[0]: is "", which is not a type of call: use some of TYPES
events.allow[2]: is empty: name an event, or omit it
events.deny[0]: is "*A", with a * that is not at its end: use * only as the last character, as in "Order *"
events.deny[1]: is "A**", with a * that is not at its end: use * only as the last character, as in "Order *"`), "TYPES", strings.Join(fields.StoredTypes, ", ")))
}
