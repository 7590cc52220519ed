package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// crowded starts a collector with long names and with data for every page. It returns the
// paths of the pages.
func crowded(t *testing.T) (b *tab, paths []string) {
	t.Helper()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{
		Sources: []tracking.Source{{Name: "web_shop_of_the_northern_region", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{
			to("data_warehouse_production", good.URL, "s3cret"), to("customer_relationships", gone.URL, ""), to("d_3", good.URL, ""),
		},
	}, "")
	const source = "web_shop_of_the_northern_region"
	postOdd(t, srv.URL, "web-key")
	post(t, srv.URL, "web-key", track("m1", "a_user_with_a_very_long_name@a-long-company-name.example", "Subscription Renewal Reminder_Sent", `{"orderId":12345678901234567890}`),
		`{"type":"identify","userId":"grace","traits":{}}`, `{"type":"track","userId":"ada"}`, `{"type":"page","anonymousId":"a","name":"Docs","integrations":{"All":false}}`)
	require.Equal(t, http.StatusUnauthorized, postTo(t, srv.URL+"/v1/batch", "wrong-key", `{"batch":[]}`))
	sendList(t, collector, users.SyncRequest{Kind: users.KindAudience, Name: "abandoned_carts_of_the_last_7_days", Source: source, Destination: "d_3", List: strings.NewReader("ada\ngrace")})
	_, err := collector.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "gdpr_2026_117", UserIDs: []string{"ken"}})
	require.NoError(t, err)
	b = newTab(t, srv.URL)
	b.open("/?event=Reminder_Sent")
	b.wait(`document.querySelector('#rows .c-state')?.dataset.states?.match(/failed|delivered/g)?.length === 3`)
	call := eval[string](b, `document.querySelector('#rows tr').dataset.ref`)
	b.open("/?status=rejected")
	rejected := eval[string](b, `document.querySelector('#rows .k-rejected').dataset.ref`)
	return b, []string{
		"/", "/?text=nothing+has+this", "/?call=" + call, "/?call=" + rejected, "/replay", "/destinations", "/destinations/new",
		"/destination?name=data_warehouse_production", "/destination?name=customer_relationships", "/problems", "/problems/replay?destination=customer_relationships", "/signatures", "/signatures?destination=data_warehouse_production&call=" + call,
		"/audiences", "/deletions", "/deletion?id=gdpr_2026_117", "/events", oddEvent(source), oddEvent(source) + "&path=quantity&has=string",
		"/plans", "/user", "/sources", "/sources?key=" + source,
	}
}

// smallTargets finds targets smaller than 24 by 24 pixels, except inline links and labeled
// inputs.
const smallTargets = `[...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary')].filter((e) => {
	if (!e.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || e.closest('.skip, p, .hint, dd, li > span')) return false
	const box = (e.closest('label') ?? e).getBoundingClientRect()
	return box.width > 0 && (box.width < 23.5 || box.height < 23.5)
}).map((e) => e.outerHTML.slice(0, 120) + ' ' + (e.closest('label') ?? e).getBoundingClientRect().width + 'x' + (e.closest('label') ?? e).getBoundingClientRect().height)`

// sideways finds elements that scroll horizontally or exceed the window.
const sideways = `[...document.querySelectorAll('*')].filter((e) => {
	if (!e.checkVisibility() || e.closest('.vh, svg')) return false
	const scrolls = /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1
	let clipped = false
	for (let around = e.parentElement; around; around = around.parentElement) clipped ||= getComputedStyle(around).overflowX === 'hidden' && around.tagName !== 'BODY'
	return scrolls || !clipped && e.getBoundingClientRect().right > innerWidth + 1
}).map((e) => e.outerHTML.slice(0, 160))`

// cutNames finds truncated destination names that are narrower than 80 pixels.
const cutNames = `[...document.querySelectorAll('.chip bdi')].filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth < 80).map((e) => e.textContent)`

// crushed finds truncated elements of the top bar.
const crushed = `[...document.querySelectorAll('.top .brand, .top nav, .top nav a')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.trim())`

func TestPagesFitTheirWindow(t *testing.T) {
	t.Parallel()
	b, paths := crowded(t)
	for n, path := range paths {
		b.size(390, 844)
		b.open(path)
		for _, width := range []int64{390, 768, 910, 1021, 1440} {
			b.look(width, 844, false)
			b.shoot(fmt.Sprintf("fit-%d-%02d", width, n))
			where := fmt.Sprintf("%s at %d", path, width)
			assert.Empty(t, eval[[]string](b, sideways), "%s scrolls sideways", where)
			assert.Empty(t, eval[[]string](b, crushed), "%s has a bar without room", where)
			assert.Empty(t, eval[[]string](b, smallTargets), "%s has small targets", where)
			assert.Empty(t, eval[[]string](b, cutNames), "%s cuts names", where)
		}
	}
	b.open("/audiences")
	assert.GreaterOrEqual(t, eval[float64](b, `parseFloat(getComputedStyle(document.querySelector('.trait a')).textUnderlineOffset)`), 4.0, "underscores can be seen above the line")
}
