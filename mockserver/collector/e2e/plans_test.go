package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// names is a webhook that records messageIds and bodies.
type names struct {
	mu   sync.Mutex // guards came
	came map[string]string
}

func (n *names) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.came[r.Header.Get("X-Message-Id")] = string(body)
}

// sorted returns the messageIds with a prefix.
func (n *names) sorted(prefix string) (ids []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.came {
		if strings.HasPrefix(id, prefix) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// plannedWith returns a plan that sets the type of total.
func plannedWith(typ string) string {
	return fmt.Sprintf("plan: shop\ntrack:\n  Order Completed:\n    properties:\n      total: {type: %s, required: true}\n", typ)
}

// configurePlan writes a configuration with four sources. Three sources have the same plan and
// treat violations differently. The fourth source receives the violations of the first one.
func configurePlan(t *testing.T, dir, webhook string) (path, address string) {
	t.Helper()
	address, err := harness.FreeAddress()
	require.NoError(t, err)
	path = filepath.Join(dir, "collector.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plannedWith("number")), 0o600))
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
listen: %s
data: data
egress: {allow: [127.0.0.0/8]}
sources:
  - {name: held, writeKey: held, plan: plan.yaml, onViolation: quarantine, violationsTo: told}
  - {name: marked, writeKey: marked, plan: plan.yaml}
  - {name: refused, writeKey: refused, plan: plan.yaml, onViolation: reject}
  - {name: told, writeKey: told, plan: plan.yaml, onViolation: reject, violationsTo: held}
destinations: [{name: crm, webhooks: [{url: '%s'}]}]
`, address, webhook), 0o600))
	return path, address
}

// order returns a call with a total. The total is a number if planned is true, and otherwise a
// string.
func order(id string, planned bool) string {
	total := `"25.5"`
	if planned {
		total = "25.5"
	}
	return fmt.Sprintf(`{"type":"track","event":"Order Completed","userId":"u","messageId":%q,"context":{"app":{"version":"1.2"}},"properties":{"total":%s}}`, id, total)
}

// postOrders sends a valid call and a call that violates the plan, in one batch or separately.
// The IDs of the calls start with prefix.
func postOrders(t *testing.T, c *harness.Collector, writeKey, prefix string, batch bool) {
	t.Helper()
	calls := []string{order(prefix+"-good", true), order(prefix+"-bad", false)}
	path := "/v1/track"
	if batch {
		path, calls = "/v1/batch", []string{`{"batch":[` + strings.Join(calls, ",") + `]}`}
	}
	for _, call := range calls {
		status := harness.Post(t.Context(), http.DefaultClient, c.URL+path, writeKey, []byte(call))
		require.Equal(t, http.StatusOK, status, "%s of %s", path, writeKey)
	}
}

type callList struct {
	Calls []struct {
		MessageID  string
		Reason     string
		Event      string
		Code       tracking.Code
		Message    string
		Violations []tracking.Violation
		Body       json.RawMessage
	}
}

func (l *callList) ids() (ids []string) {
	for _, c := range l.Calls {
		ids = append(ids, c.MessageID)
	}
	slices.Sort(ids)
	return ids
}

func TestPlanViolations(t *testing.T) {
	t.Parallel()
	dir, hook := t.TempDir(), &names{came: map[string]string{}}
	webhook := httptest.NewServer(hook)
	defer webhook.Close()
	path, address := configurePlan(t, dir, webhook.URL)
	c := serve(t, path, address, nil)
	for _, source := range []string{"held", "marked", "refused"} {
		postOrders(t, c, source, source+"-1", true)
		postOrders(t, c, source, source+"-2", false)
	}
	postOrders(t, c, "held", "held-1", true) // duplicates
	// Source told receives calls about violations. Such calls cause no further violations, but
	// other calls of this source do.
	postOrders(t, c, "told", "told-1", true)

	quarantined := []string{"held-1-bad", "held-2-bad"}
	settled(t, c)
	assert.Equal(t, []string{"held-1-good", "held-2-good"}, hook.sorted("held"))
	assert.Equal(t, []string{"marked-1-bad", "marked-1-good", "marked-2-bad", "marked-2-good"}, hook.sorted("marked"))
	assert.Equal(t, []string{"refused-1-good", "refused-2-good"}, hook.sorted("refused"))
	// Two of these calls report violations of source held. The third call reports the violation of
	// call told-1-bad to source held, which does not quarantine it.
	assert.Len(t, hook.sorted("violation-"), 3)
	l := ledgers(t, c)["crm"]
	assert.EqualValues(t, 2, l.Filtered)
	assert.True(t, l.Holds(), "%+v", l)
	verify(t, c)

	var marked, told, rejected callList
	require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/calls?source=marked", nil, &marked))
	for _, call := range marked.Calls {
		want := []tracking.Violation(nil)
		if strings.HasSuffix(call.MessageID, "-bad") {
			want = []tracking.Violation{{Kind: "wrong type", Event: "Order Completed", Pointer: "/properties/total", Message: `/properties/total is "25.5", a string; expected a number`, Plan: "shop", Line: 5}}
		}
		assert.Equal(t, want, call.Violations, call.MessageID)
	}
	require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/calls?source=told&event=Violation+Generated&bodies=true", nil, &told))
	require.Len(t, told.Calls, 2)
	var body struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(told.Calls[1].Body, &body))
	for name, want := range map[string]any{
		"appVersion": "1.2", "eventMessageID": "held-1-bad", "eventName": "Order Completed", "eventType": "track", "sourceName": "held", "trackingPlanName": "shop",
		"violationType": "wrong type", "violationField": "properties.total", "violationDescription": `/properties/total is "25.5", a string; expected a number`,
	} {
		assert.Equal(t, want, body.Properties[name], name)
	}
	require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/rejections", nil, &rejected))
	require.Len(t, rejected.Calls, 3)
	for _, call := range rejected.Calls {
		assert.Equal(t, tracking.CodeNotAsPlanned, call.Code)
		assert.Equal(t, `the call violates the tracking plan "shop": /properties/total is "25.5", a string; expected a number`, call.Message)
		assert.Len(t, call.Violations, 1)
	}
	metrics, err := c.Metrics(t.Context())
	require.NoError(t, err)
	for source, n := range map[string]float64{"held": 2, "marked": 2, "refused": 2, "told": 1} {
		assert.InDelta(t, n, metrics[fmt.Sprintf(`collector_plan_violations_total{event="Order Completed",kind="wrong type",source=%q}`, source)], 0, source)
	}

	c.Kill()
	c = serve(t, path, address, nil)
	listed := func() []string {
		var list callList
		require.NoError(t, c.Ask(t.Context(), http.MethodGet, "/destinations/crm/failed?state=filtered", nil, &list))
		for _, call := range list.Calls {
			assert.Equal(t, `plan: /properties/total is "25.5", a string; expected a number`, call.Reason)
		}
		return list.ids()
	}
	replay := func() (n int) {
		var answer struct{ Calls int }
		require.NoError(t, c.Ask(t.Context(), http.MethodPost, "/destinations/crm/replay", map[string]any{"state": "filtered"}, &answer))
		return answer.Calls
	}
	assert.Equal(t, quarantined, listed())
	// Replayed calls are checked again, and the plan has not changed.
	assert.Equal(t, 2, replay())
	settled(t, c)
	assert.Equal(t, quarantined, listed())

	// An invalid plan prevents the reload. The current configuration stays in effect.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte("track: {E: {propertis: {}}}\n"), 0o600))
	waitFor(t, 2*time.Minute, "the plan is refused", func() bool {
		return strings.Contains(c.Log(), `plan.yaml:1: track \"E\": unknown JSON Schema keyword \"propertis\"`)
	})
	postOrders(t, c, "held", "held-3", true)
	settled(t, c)
	assert.Equal(t, append(quarantined, "held-3-bad"), listed())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte(plannedWith("[number, string]")), 0o600))
	waitFor(t, 2*time.Minute, "the plan is fixed", func() bool { return strings.Contains(c.Log(), "reloaded the configuration") })
	assert.Equal(t, 3, replay())
	c.Kill()
	c = serve(t, path, address, nil)
	settled(t, c)
	assert.Equal(t, []string{"held-1-bad", "held-1-good", "held-2-bad", "held-2-good", "held-3-bad", "held-3-good"}, hook.sorted("held"))
	assert.Empty(t, listed())
	assert.Zero(t, replay(), "what was replayed is replayed again")
	l = ledgers(t, c)["crm"]
	assert.Zero(t, l.Filtered)
	assert.Equal(t, l.Accepted, l.Delivered)
	verify(t, c)
}
