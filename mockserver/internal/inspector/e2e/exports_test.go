package e2e

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// widths are the window sizes of screenshots.
var widths = []struct {
	name          string
	width, height int64
}{{"1440", 1440, 900}, {"1024", 1024, 768}, {"390", 390, 844}}

// shootWidths saves a screenshot at each width and checks that the page does not scroll
// horizontally.
func shootWidths(b *tab, name string) {
	b.t.Helper()
	for _, w := range widths {
		b.look(w.width, w.height, false)
		assert.LessOrEqual(b.t, eval[int64](b, `document.documentElement.scrollWidth`), w.width, "%s at %s", name, w.name)
		b.shoot(name + "-" + w.name)
	}
	b.look(1440, 900, false)
}

func TestExportFollowsTheSearch(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t, http.StatusBadRequest)
	srv, _ := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", hook.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "=ada", "Signed Up", `{}`), track("m2", "grace", "Signed Up", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.set("#q", "user:ada")
	b.wait(`document.querySelectorAll('#rows tr').length === 1`)
	download := func(n string) string {
		return eval[string](b, `fetch(document.querySelectorAll('.export a')[`+n+`].href).then((r) => r.text())`)
	}
	rows, err := csv.NewReader(strings.NewReader(download("0"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	assert.Equal(t, "'=ada", rows[1][5])
	assert.Regexp(t, `^\{.*"messageId":"m1".*\}\n$`, download("1"))
	shootWidths(b, "export")
}

func TestFacetsCountAndSelectCalls(t *testing.T) {
	t.Parallel()
	script := axe(t)
	hook := newReceiver(t, http.StatusBadRequest)
	srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{to("hook", hook.URL, "")}}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Signed Up", `{}`), track("m2", "grace", "Signed Up", `{}`), `{"type":"track","userId":"ada"}`)
	settle(t, collector)
	b := newTab(t, srv.URL)
	b.open("/?q=user:ada")
	counts := func(want string) {
		t.Helper()
		b.wait(`[...document.querySelectorAll('[data-facet]')].map((e) => e.dataset.facet + ' ' + e.textContent).join(', ') === ` + quote(want))
	}
	counts("accepted 1, rejected 1, failed 1, pending 0, delivered 0, filtered 0")
	judgeLightAndDark(b, script, "facets")
	shootWidths(b, "facets")
	b.click(".facets a:nth-child(4)")
	b.wait(`document.querySelectorAll('#rows tr').length === 1`)
	assert.Equal(t, "user:ada status:failed", eval[string](b, `document.querySelector('#q').value`))
	counts("accepted 1, rejected 1, failed 1, pending 0, delivered 0, filtered 0")
	hook.status.Store(http.StatusOK)
	post(t, srv.URL, "web", track("m3", "ada", "Signed Up", `{}`))
	counts("accepted 2, rejected 1, failed 1, pending 0, delivered 1, filtered 0")
	assert.Equal(t, "Failed 1", b.text(".facets [aria-current]"))
	b.click(".facets a:nth-child(1)")
	b.wait(`document.querySelectorAll('#rows tr').length === 3`)
	assert.Equal(t, "user:ada", eval[string](b, `document.querySelector('#q').value`))
}

func TestChartShowsLongerRangesOnALinearScale(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv, collector := serve(t, engine.Config{}, "")
	post(t, srv.URL, "web", track("m1", "ada", "Now", `{}`), `{"type":"track","userId":"ada"}`)
	now := time.Now()
	for ago, calls := range map[time.Duration]int{30 * time.Minute: 40, 10 * time.Minute: 20, 5 * time.Hour: 1000, 25 * time.Hour: 9} {
		collector.History().Observe(event.Accepted{Batch: event.Batch{Source: "web", ReceivedAt: now.Add(-ago), Calls: make([]tracking.Call, calls)}}) // calls without an ID are one row
	}
	b := newTab(t, srv.URL)
	b.open("/")
	sum := func(want string) {
		t.Helper()
		b.wait(`document.querySelector('[data-sum=accepted]').textContent === ` + quote(want))
	}
	sum("1")
	for _, r := range []struct{ value, sum, top, half string }{{"hour", "61", "50/min", "25/min"}, {"day", "1,061", "5,000/h", "2,500/h"}} {
		b.set(".chart-range select", r.value)
		sum(r.sum)
		assert.Equal(t, r.top, b.text(".top-label"))
		assert.Equal(t, r.half, b.text(".half-label"))
		heights := eval[[]float64](b, `document.querySelector('.chart path.c-accepted').getAttribute('d').split('M').slice(1).map((bar) => Number(bar.split('v')[1].split('h')[0]))`)
		if r.value == "hour" {
			require.Len(t, heights, 3)
			assert.InDelta(t, 2, heights[0]/heights[1], 0.02, "half the rate is half as high")
		}
		judgeLightAndDark(b, script, "chart of the last "+r.value)
		shootWidths(b, "chart-"+r.value)
	}
	assert.Contains(t, eval[string](b, `document.querySelector('.chart svg').getAttribute('aria-label')`), "last day")
	post(t, srv.URL, "web", track("m2", "ada", "Later", `{}`))
	sum("1,062") // the range is updated
	b.set(".chart-range select", "")
	sum("2")
	assert.Equal(t, "1/s", b.text(".top-label"))
}
