package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// npm serializes runs of the npm command.
var npm sync.Mutex

// npmFile returns the path of a file in a package. It installs the packages if they are
// missing.
func npmFile(t *testing.T, path string) string {
	t.Helper()
	path = filepath.Join("node_modules", path)
	npm.Lock()
	defer npm.Unlock()
	if _, err := os.Stat(path); err != nil {
		out, err := exec.CommandContext(t.Context(), "npm", "install", "--fetch-retries=5", "--no-audit", "--no-fund", "--no-package-lock").CombinedOutput()
		if err != nil && os.Getenv("REQUIRE_NPM") != "1" {
			t.Skipf("npm cannot fetch %s: %v\n%s", path, err, out)
		}
		require.NoError(t, err, string(out))
	}
	return path
}

// axe returns the axe-core script.
func axe(t *testing.T) string {
	t.Helper()
	script, err := os.ReadFile(npmFile(t, "axe-core/axe.min.js"))
	require.NoError(t, err)
	return string(script)
}

// judge checks the page with the given rules of axe, or with all rules by default.
func judge(b *tab, script, where string, rules ...string) {
	b.t.Helper()
	judgePart(b, script, where, "html", rules...)
}

// judgePart checks the first element that matches a selector, like judge.
func judgePart(b *tab, script, where, selector string, rules ...string) {
	b.t.Helper()
	if !eval[bool](b, `'axe' in window`) {
		b.run(script + "; undefined")
	}
	only := ""
	if len(rules) > 0 {
		only = "runOnly: " + quote(strings.Join(rules, " ")) + ".split(' '),"
	}
	found := eval[json.RawMessage](b, `axe.run(document.querySelector(`+quote(selector)+`), { `+only+` resultTypes: ['violations'], selectors: false }).then((r) => r.violations.map(
		(v) => ({ id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => n.html.slice(0, 200) + ' ' + n.failureSummary) })))`)
	var violations []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	require.NoError(b.t, json.Unmarshal(found, &violations))
	for _, v := range violations {
		assert.Fail(b.t, v.ID, "%s: %s (%s)\n%s", where, v.Help, v.Impact, strings.Join(v.Nodes, "\n"))
	}
}

// judgeLightAndDark checks the page in both themes and returns to the light theme. In the dark
// theme, it checks only the contrast.
func judgeLightAndDark(b *tab, script, where string) {
	b.t.Helper()
	judgePartLightAndDark(b, script, where, "html")
}

func judgePartLightAndDark(b *tab, script, where, selector string) {
	b.t.Helper()
	judgePart(b, script, where, selector)
	b.look(1440, 900, true)
	judgePart(b, script, where+", dark", selector, "color-contrast")
	b.look(1440, 900, false)
}

func TestAccessibility(t *testing.T) {
	t.Parallel()
	script := axe(t)
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", good.URL, "s3cret"), to("crm", gone.URL, "")}}, "")
	b := newTab(t, srv.URL)
	b.open("/")
	judge(b, script, "the first run")
	b.open("/events")
	judge(b, script, "no event yet")
	b.open("/")
	postOdd(t, srv.URL, "web")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{"orderId":12345678901234567890}`),
		`{"type":"identify","userId":"grace","traits":{}}`, `{"type":"track","userId":"ada"}`, `{"type":"page","anonymousId":"a","name":"Docs","integrations":{"All":false}}`)
	b.wait(`document.querySelectorAll('#rows .is-delivered').length === 13`)
	rejected := eval[string](b, `document.querySelector('#rows .k-rejected').dataset.ref`)
	call := eval[string](b, `document.querySelector('#rows tr:last-child').dataset.ref`)
	for path, narrow := range map[string]bool{
		"/": true, "/?text=nothing+has+this": false, "/?call=" + call: true, "/?call=" + rejected: false, "/replay": false, "/destinations": true, "/destinations/new": false,
		"/destination?name=hook": true, "/destination?name=crm": false, "/problems": true, "/problems/replay?destination=crm": false,
		"/signatures": false, "/signatures?destination=hook&call=" + call: false, "/events": true, "/events?find=nothing": false,
		oddEvent("web"): false, oddEvent("web") + "&path=quantity&has=string": true,
	} {
		b.open(path)
		b.run(`document.querySelectorAll('details').forEach((d) => { d.open = true })`)
		judgeLightAndDark(b, script, path)
		if narrow {
			b.look(390, 800, false)
			judge(b, script, path+", narrow")
			b.look(1440, 900, false)
		}
	}
	for _, state := range []struct{ name, show, part string }{
		{"ways to go on", `document.querySelector('#q').focus(); document.querySelector('#q').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown' }))`, "#filters:has(#suggestions li)"}, // ArrowDown does not start a search
		{"the help", `document.querySelector('#help').showPopover()`, "#help:popover-open"},
		{"the times", `document.querySelector('#range').open = true`, ".range[open]"},
		{"a search that fails", `document.querySelector('#q').value = 'evnt:x'; document.querySelector('#filters').requestSubmit()`, "#search-problem:not(:empty)"},
		{"all destinations", `document.querySelector('#rows tr:has(.others) a').focus()`, "#tip:popover-open"},
		{"a call as code", `document.querySelector('.copy-as').open = true`, ".copy-as[open]"},
	} {
		b.open("/?call=" + call + "&q=-user:nobody")
		b.run(state.show)
		b.wait(`document.querySelector(` + quote(state.part) + `) !== null`)
		judgePartLightAndDark(b, script, state.name, state.part)
	}
	b.open("/destinations/new")
	b.click(".save .primary")
	b.wait(`document.activeElement?.id === 'summary'`)
	judgeLightAndDark(b, script, "a form with problems")
	b.forgive("422")
}
