package service

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// destinationSettings has a value other than the default for every setting of a destination, except
// onFailure, which replaces giveUpAfter.
const destinationSettings = `{
	"name": "file", "sources": ["web"], "types": {"allow": ["track"], "deny": ["page"]},
	"events": {"allow": ["Order *"], "deny": ["Order Tested"]}, "maxPerSecond": 0.5, "concurrency": 8,
	"redact": {"remove": ["context.ip"], "hash": ["userId"], "mask": ["traits.card"]}, "keepWhileDisabled": true,
	"batch": {"calls": 100, "bytes": 2000, "wait": "5s"},
	"order": "user", "giveUpAfter": "10m0s",
	"webhooks": [{"url": "https://a.example/hook", "headers": {"X-Tenant": "acme"}}, {"url": "https://b.example/hook"}],
	"sharedSecret": "a-secret-of-this-test", "previousSecret": "an-earlier-secret", "signature": "both",
	"aliasFields": "camelCase", "traceContext": "all", "transform": "{text: .event}"
}`

// relaySettings has a value for every setting that only a relay has.
var relaySettings = []string{
	`{"name": "file", "type": "relay", "endpoint": "https://a.example", "writeKey": "the-key-of-this-test"}`,
	`{"name": "file", "type": "relay", "region": "eu", "writeKey": "the-key-of-this-test"}`,
}

// Every setting of a destination survives the configuration file, the API and the page. To add a
// setting, add a value to destinationSettings or relaySettings.
func TestDestinationSettingsSurviveEveryWayToSetThem(t *testing.T) {
	unset := map[string]bool{}
	for name := range settings.Fields(reflect.ValueOf(tracking.Destination{})) {
		unset[name] = true
	}
	for _, document := range append(relaySettings, destinationSettings, strings.Replace(destinationSettings, `"giveUpAfter": "10m0s"`, `"onFailure": "overtake"`, 1)) {
		for name, value := range settings.Fields(reflect.ValueOf(checkRoundTrip(t, document))) {
			unset[name] = unset[name] && value.IsZero()
		}
	}
	for name, unset := range unset {
		assert.False(t, unset, "%s is missing in destinationSettings and relaySettings, or the configuration ignores it", name)
	}
}

// checkRoundTrip sets the settings in document in each way, and returns those that the configuration
// sets.
func checkRoundTrip(t *testing.T, document string) tracking.Destination {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := fmt.Sprintf("listen: 127.0.0.1:0\ndata: queue\nredactKey: a-key-of-this-test\nsources: [{name: web, writeKey: web-key}]\ndestinations: [%s]\n", strings.ReplaceAll(document, "\t", " "))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file)
	require.NoError(t, err)
	s := start(t, Options{Dev: true, Config: c})
	saved := func(name string) tracking.Destination {
		all := s.collector.Settings().Destinations
		i := slices.IndexFunc(all, settings.DestinationNamed(name))
		require.GreaterOrEqual(t, i, 0, name)
		d := all[i]
		d.Name = "file"
		return d
	}
	configured := saved("file")

	status, answer := sendJSON(t, http.MethodPost, s.AdminURL()+"/api/v1/destinations", strings.Replace(document, `"file"`, `"api"`, 1))
	require.Equal(t, http.StatusCreated, status, answer)
	assert.Equal(t, configured, saved("api"), "set by the API")
	var given, shown map[string]any
	require.NoError(t, json.Unmarshal([]byte(document), &given))
	require.NoError(t, json.Unmarshal([]byte(answer), &shown))
	given["name"] = "api"
	for name := range given {
		if strings.HasSuffix(name, "Secret") || name == "writeKey" {
			assert.NotContains(t, shown, name, "the API shows a secret")
		} else {
			assert.Equal(t, given[name], shown[name], "the API shows %s", name)
		}
	}

	form := readForm(t, s.AdminURL()+"/destination?name=api")
	for _, rate := range []float64{0.5, 2} { // unchanged, and with one change
		form.Set("maxPerSecond", fmt.Sprint(rate))
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		response, err := (&http.Client{Jar: jar}).PostForm(s.AdminURL()+"/destinations/save", form)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, http.StatusOK, response.StatusCode)
		want := configured
		want.MaxPerSecond = rate
		assert.Equal(t, want, saved("api"), "saved by the page")
	}
	return configured
}

func sendJSON(t *testing.T, method, url, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, string(data)
}

var (
	formElement = regexp.MustCompile(`(?s)<input ([^>]*)>|<textarea ([^>]*)>(.*?)</textarea>|<select ([^>]*)>(.*?)</select>`)
	attribute   = regexp.MustCompile(`([a-zA-Z-]+)(?:="([^"]*)")?`)
	option      = regexp.MustCompile(`<option([^>]*)>`)
)

// readForm returns the values that a browser submits for the form of a destination page.
func readForm(t *testing.T, page string) url.Values {
	t.Helper()
	_, body := sendJSON(t, http.MethodGet, page, "")
	_, body, found := strings.Cut(body, `id="destination-form"`)
	require.True(t, found, body)
	body, _, _ = strings.Cut(body, "</form>")
	attributes := func(text string) map[string]string {
		all := map[string]string{}
		for _, a := range attribute.FindAllStringSubmatch(text, -1) {
			all[a[1]] = html.UnescapeString(a[2])
		}
		return all
	}
	form := url.Values{}
	for _, e := range formElement.FindAllStringSubmatch(body, -1) {
		a := attributes(e[1] + e[2] + e[4])
		_, checked := a["checked"]
		switch {
		case e[4] != "":
			selected := ""
			for i, o := range option.FindAllStringSubmatch(e[5], -1) {
				if choice := attributes(o[1]); i == 0 || strings.Contains(o[1], " selected") {
					selected = choice["value"]
				}
			}
			form.Set(a["name"], selected)
		case e[2] != "":
			form.Set(a["name"], html.UnescapeString(e[3]))
		case a["type"] != "checkbox" && a["type"] != "radio" || checked:
			form.Add(a["name"], a["value"])
		}
	}
	return form
}
