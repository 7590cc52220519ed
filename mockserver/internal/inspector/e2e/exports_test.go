package e2e

import (
	"encoding/csv"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
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
