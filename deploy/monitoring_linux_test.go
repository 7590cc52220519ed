package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// grafanaDashboard has version 1 of the schema, because Grafana 10 and 11 do not read version 2.
type grafanaDashboard = dashboard.Dashboard //nolint:staticcheck // deprecated in favor of version 2

// readDashboard reads the dashboard with Grafana's types. Unknown fields and types of panels are
// errors.
func readDashboard(t *testing.T) grafanaDashboard {
	t.Helper()
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(stat.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	text, err := os.ReadFile(filepath.Join("grafana", "collector.json"))
	require.NoError(t, err)
	var d grafanaDashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.NoError(t, d.Validate())
	noProblems(t, new(grafanaDashboard).UnmarshalJSONStrict(text))
	var raw struct {
		Panels []struct{ FieldConfig json.RawMessage } // the decoder of a panel does not check it strictly
	}
	require.NoError(t, json.Unmarshal(text, &raw))
	for i, p := range d.Panels {
		noProblems(t, new(dashboard.FieldConfigSource).UnmarshalJSONStrict(raw.Panels[i].FieldConfig))
		require.Contains(t, []string{"stat", "timeseries"}, p.Panel.Type) // the decoder ignores the options of other types
	}
	return d
}

// noProblems fails the test if a strict decoder found problems. Some decoders return an error without
// any.
func noProblems(t *testing.T, err error) {
	t.Helper()
	if problems := (cog.BuildErrors)(nil); errors.As(err, &problems) {
		require.Empty(t, problems)
	} else {
		require.NoError(t, err)
	}
}

// dashboardQueries returns the PromQL expressions of all panels, without Grafana's variables.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	variables := strings.NewReplacer("$job", "collector", "$destination", ".*", "$__rate_interval", "5m")
	var all []string
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Panel.Targets {
			expr := variables.Replace(target.(*prometheus.Dataquery).Expr)
			assert.NotContains(t, expr, "$", *p.Panel.Title)
			all = append(all, expr)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// ruleQueries returns the PromQL expressions of all alerting rules.
func ruleQueries(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("prometheus", "rules.yaml"))
	require.NoError(t, err)
	var rules struct {
		Groups []struct{ Rules []struct{ Expr string } }
	}
	require.NoError(t, yaml.Unmarshal(text, &rules))
	var all []string
	for _, r := range rules.Groups[0].Rules {
		all = append(all, r.Expr)
	}
	require.NotEmpty(t, all)
	return all
}

func TestDashboardPanelsDoNotOverlap(t *testing.T) {
	t.Parallel()
	used := map[[2]uint32]string{}
	for _, p := range readDashboard(t).Panels {
		title, at := *p.Panel.Title, p.Panel.GridPos
		assert.LessOrEqual(t, at.X+at.W, uint32(24), title)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				assert.Empty(t, used[[2]uint32{x, y}], title)
				used[[2]uint32{x, y}] = title
			}
		}
	}
}

func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	needs(t, "promtool", "REQUIRE_PROMTOOL")
	do(t, "promtool", "check", "rules", filepath.Join("prometheus", "rules.yaml"))
	do(t, "promtool", "test", "rules", filepath.Join("prometheus", "rules_test.yaml"))
}

func TestDashboardQueriesAreValid(t *testing.T) {
	t.Parallel()
	needs(t, "promtool", "REQUIRE_PROMTOOL")
	type rule struct{ Record, Expr string }
	type group struct {
		Name  string
		Rules []rule
	}
	queries := group{Name: "dashboard"}
	for i, expr := range dashboardQueries(t) {
		queries.Rules = append(queries.Rules, rule{fmt.Sprintf("panel:query:%d", i), expr})
	}
	text, err := yaml.Marshal(map[string]any{"groups": []group{queries}})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	do(t, "promtool", "check", "rules", file)
}

// metricName matches the names of metrics in PromQL expressions.
var metricName = regexp.MustCompile(`\b(collector|go|process)_\w+\b`)

// TestMonitoredMetricsExist compares the names in the dashboard and the rules with the metrics of a
// collector that has delivered, retried, refused and rejected calls.
func TestMonitoredMetricsExist(t *testing.T) {
	t.Parallel()
	text := scrape(t)
	for _, expr := range append(dashboardQueries(t), ruleQueries(t)...) {
		for _, name := range metricName.FindAllString(expr, -1) {
			assert.True(t, strings.Contains(text, "\n"+name+"{") || strings.Contains(text, "\n"+name+" "), name)
		}
	}
	needs(t, "promtool", "REQUIRE_PROMTOOL")
	check := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// scrape returns the metrics of a collector that has an example of each event.
func scrape(t *testing.T) string {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Message-Id") != "delivered" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)
	url := startDev(t, nil, "--webhook", receiver.URL)
	request := func(method, path, body string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		require.NoError(t, err)
		req.SetBasicAuth("web", "")
		if method == http.MethodGet {
			req.Header.Set("Authorization", "Bearer for-tests-only")
		}
		req.Header.Set("X-Retry-Count", "1")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(bytes.TrimSpace(text))
	}
	for _, id := range []string{"delivered", "retried", "retried"} { // the last call is a duplicate
		request(http.MethodPost, "/v1/track", fmt.Sprintf(`{"event":"Signed Up","userId":"u1","messageId":%q}`, id))
	}
	request(http.MethodPost, "/v1/track", `{"userId":"u1"}`) // rejected: it has no event
	request(http.MethodPost, "/v1/track", `{`)               // refused: invalid JSON
	var text string
	await(t, "both calls were attempted", func() bool {
		text = request(http.MethodGet, "/metrics", "")
		return strings.Contains(text, `result="delivered"} 1`) && strings.Contains(text, `result="pending"}`) &&
			strings.Contains(text, "collector_delivery_latency_seconds_count")
	})
	return text + "\n"
}
