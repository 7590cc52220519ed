package mockserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// The API or the form enables ordering while a destination receives calls.
func TestOrderIsSetByAPIAndForm(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, srv *mockserver.Server, hook string){
		"by the API": func(t *testing.T, srv *mockserver.Server, _ string) {
			status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", `{"order":"user","giveUpAfter":"10m"}`)
			require.Equal(t, http.StatusOK, status, answer)
		},
		"by the form": func(t *testing.T, srv *mockserver.Server, hook string) {
			res, page := submit(t, srv.URL+"/destinations/save", url.Values{"name": {"crm"}, "new": {"false"}, "enabled": {"true"}, "url0": {hook}, "order": {"user"}, "giveUpAfter": {"10m"}, "onFailure": {"hold"}})
			require.Equal(t, http.StatusOK, res.StatusCode, page)
			_, page = get(t, srv.URL+"/destination?name=crm")
			assert.Contains(t, page, `<option value="user" selected>`)
			assert.Contains(t, page, `value="10m0s"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex // guards got
			got := map[string][]int{}
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var call struct {
					UserID     string
					Properties struct{ N int }
				}
				assert.NoError(t, json.NewDecoder(r.Body).Decode(&call))
				mu.Lock()
				defer mu.Unlock()
				got[call.UserID] = append(got[call.UserID], call.Properties.N)
			}))
			t.Cleanup(receiver.Close)
			srv := mockserver.RunT(t)
			require.NoError(t, srv.Engine().AddDestination(t.Context(), tracking.Destination{Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: receiver.URL}}}}))
			change(t, srv, receiver.URL)
			assert.Equal(t, tracking.Ordering{Order: tracking.OrderUser, GiveUpAfter: 10 * time.Minute}, srv.Engine().Settings().Destinations[0].Ordering)
			_, shown := askAdmin(t, srv, "GET", "/destinations/crm", "")
			assert.Equal(t, "user", shown["order"])
			assert.Equal(t, "10m0s", shown["giveUpAfter"])
			const users, each = 5, 40
			want := []int{}
			for n := range each {
				want = append(want, n)
				for user := range users {
					post(t, srv.URL+"/v1/track", "key", fmt.Sprintf(`{"event":"E","userId":"u%d","properties":{"n":%d}}`, user, n))
				}
			}
			delivered(t, srv, "crm", users*each)
			mu.Lock()
			defer mu.Unlock()
			for user := range users {
				assert.Equal(t, want, got[fmt.Sprintf("u%d", user)])
			}
		})
	}
}

func TestInvalidOrderIsRefused(t *testing.T) {
	srv := mockserver.RunT(t)
	status, _ := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","order":"user","onFailure":"overtake","webhooks":[{"url":"https://a.example"}]}`)
	require.Equal(t, http.StatusCreated, status)
	for change, want := range map[string]string{
		`{"order":"source"}`:                  `order: is "source"`,
		`{"onFailure":"skip"}`:                `onFailure: is "skip"`,
		`{"giveUpAfter":"soon"}`:              `giveUpAfter: is "soon": use a duration such as 10m`,
		`{"giveUpAfter":"5m"}`:                `giveUpAfter: has no effect with onFailure "overtake"`,
		`{"order":"none","giveUpAfter":"5m"}`: "giveUpAfter: requires an order",
	} {
		status, answer := askAdmin(t, srv, "PATCH", "/destinations/crm", change)
		assert.Equal(t, http.StatusUnprocessableEntity, status, change)
		assert.Contains(t, answer["message"], want)
	}
	status, _ = askAdmin(t, srv, "PATCH", "/destinations/crm", `{"order":"none"}`)
	assert.Equal(t, http.StatusOK, status, "what goes with an order goes with it")
	res, page := submit(t, srv.URL+"/destinations/save", url.Values{"name": {"crm"}, "new": {"false"}, "url0": {"https://a.example"}, "order": {"user"}, "giveUpAfter": {"soon"}})
	assert.NotEqual(t, http.StatusSeeOther, res.StatusCode)
	assert.Contains(t, page, "Maximum wait must be a duration such as 10m")
}
