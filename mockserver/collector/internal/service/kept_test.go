package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

// TestEventShapesSurviveRestart checks that learned event shapes survive a restart.
func TestEventShapesSurviveRestart(t *testing.T) {
	c := &config.Config{Listen: "127.0.0.1:0", Data: t.TempDir(), Sources: []config.Source{{Name: "web", WriteKey: "web-key"}}}
	post := func(s *Service, id, properties string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/track", strings.NewReader(
			fmt.Sprintf(`{"event":"Order Completed","userId":"u","messageId":%q,"properties":%s}`, id, properties)))
		require.NoError(t, err)
		req.SetBasicAuth("web-key", "")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	known := func(s *Service) (e shapes.Event) {
		var list struct{ Events []struct{ ID string } }
		_, body := get(t, http.DefaultClient, s.AdminURL()+"/api/v1/events", "")
		require.NoError(t, json.Unmarshal([]byte(body), &list))
		if len(list.Events) == 1 {
			_, body = get(t, http.DefaultClient, s.AdminURL()+"/api/v1/events/"+list.Events[0].ID, "")
			require.NoError(t, json.Unmarshal([]byte(body), &e))
		}
		return e
	}
	first := start(t, Options{Config: c})
	for i := range 9 {
		post(first, fmt.Sprint("m", i), `{"total":12.5,"currency":"EUR"}`)
	}
	post(first, "odd", `{"total":"12.50","currency":"eur"}`)
	before := known(first)
	require.EqualValues(t, 10, before.Calls)
	require.NoError(t, first.shutdown())

	second := start(t, Options{Config: c})
	waitFor(t, func() bool { return known(second).Calls == 10 }) // shapes load in the background
	after := known(second)
	assert.Equal(t, before.Sampled, after.Sampled)
	assert.Equal(t, "total is usually a number, but a string in 10 % (1 of 10 values)", after.Anomalies[0].Text)
	assert.Equal(t, "odd", after.Property("total").Types[1].Call)
	post(second, "more", `{"total":1.5}`)
	waitFor(t, func() bool { return known(second).Calls == 11 })
}

// TestStatisticsSurviveRestart checks that delivery statistics and failures survive a restart.
func TestStatisticsSurviveRestart(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no user Ada", http.StatusBadRequest)
	}))
	defer receiver.Close()
	c := &config.Config{
		Listen: "127.0.0.1:0", Data: t.TempDir(), Sources: []config.Source{{Name: "web", WriteKey: "web-key"}},
		Destinations: []config.Destination{hook("crm", receiver.URL)},
	}
	type counts struct {
		Since    time.Time
		Attempts struct{ Total int }
	}
	known := func(s *Service) (destination, problem counts) {
		var d struct {
			Status struct {
				Measures struct {
					Since time.Time
					Day   struct{ Failed int }
				}
			}
		}
		_, body := get(t, http.DefaultClient, s.AdminURL()+"/api/v1/destinations/crm", "")
		require.NoError(t, json.Unmarshal([]byte(body), &d))
		destination.Since, destination.Attempts.Total = d.Status.Measures.Since, d.Status.Measures.Day.Failed
		var p struct {
			Since  time.Time
			Failed []counts
		}
		_, body = get(t, http.DefaultClient, s.AdminURL()+"/api/v1/problems", "")
		require.NoError(t, json.Unmarshal([]byte(body), &p))
		for _, f := range p.Failed {
			problem.Attempts.Total += f.Attempts.Total
		}
		problem.Since = p.Since
		return destination, problem
	}
	first := start(t, Options{Config: c})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, first.URL()+"/v1/track", strings.NewReader(`{"event":"E","userId":"u"}`))
	require.NoError(t, err)
	req.SetBasicAuth("web-key", "")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	waitFor(t, func() bool { d, p := known(first); return d.Attempts.Total == 1 && p.Attempts.Total == 1 })
	status, _ := get(t, http.DefaultClient, first.URL()+"/wp-login.php", "")
	require.Equal(t, http.StatusNotFound, status)
	const words = `<p class="cause-text">`
	_, problems := get(t, http.DefaultClient, first.AdminURL()+"/problems", "")
	require.Contains(t, problems, words)
	destination, problem := known(first)
	require.NoError(t, first.shutdown())

	second := start(t, Options{Config: c})
	waitFor(t, func() bool { d, p := known(second); return d.Attempts.Total == 1 && p.Attempts.Total == 1 }) // statistics load in the background
	d, p := known(second)
	assert.True(t, d.Since.Equal(destination.Since), "%v, want %v", d.Since, destination.Since)
	assert.True(t, p.Since.Equal(problem.Since), "%v, want %v", p.Since, problem.Since)
	_, problems = get(t, http.DefaultClient, second.AdminURL()+"/problems", "")
	assert.Contains(t, problems, "<code>not_found</code>")
	assert.NotContains(t, problems, words, "the words of a request from nobody known are not kept")
}
