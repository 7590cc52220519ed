package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// failingShop starts a collector with failed orders, rejected calls and refused requests.
// Destination crm accepts orders after mended is set.
func failingShop(t *testing.T, orders int) (b *tab, url string, collector *engine.Collector, mended *atomic.Bool) {
	t.Helper()
	mended = &atomic.Bool{}
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Event string }
		_ = json.NewDecoder(r.Body).Decode(&call)
		switch {
		case call.Event == "Never":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte("no such event"))
		case !mended.Load():
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"order %s unknown","tenant":"northern-region"}`, r.Header.Get("X-Message-Id"))
		}
	}))
	t.Cleanup(crm.Close)
	srv, collector := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web shop", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{to("crm", crm.URL, "")},
	}, "")
	var calls []string
	for n := range orders {
		calls = append(calls, strings.Replace(track(fmt.Sprint("order-", n), "ada", "Order Completed", `{}`), `{"type"`, `{"context":{"library":{"name":"analytics-go","version":"1.2"}},"type"`, 1))
	}
	calls = append(calls, track("never", "ada", "Never", `{}`), `{"type":"track","userId":"ada","context":{"library":{"name":"shop-scripts","version":"7"}}}`)
	post(t, srv.URL, "web-key", calls...)
	require.Equal(t, http.StatusBadRequest, postTo(t, srv.URL+"/v1/batch", "web-key", `{"writeKey":"web-key","batch":[}`))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := collector.History().Await(ctx, orders+1, func(r *tracking.Record) bool { return len(r.Ends) > 0 })
	require.NoError(t, err)
	return newTab(t, srv.URL), srv.URL, collector, mended
}

func TestReplayCauseInThreeClicks(t *testing.T) {
	t.Parallel()
	b, _, collector, mended := failingShop(t, 30)
	clicks := 0
	click := func(selector string) { clicks++; b.click(selector) }
	b.open("/")
	click(`.top a[href="/problems"]`)
	b.waitText("h1", "Problems")
	b.ready()
	assert.Equal(t, 2, b.count("section[aria-labelledby=failed] .cause"))
	assert.Contains(t, b.text(".cause h3"), "crm responded with 400 (Bad Request): order … unknown")
	assert.Contains(t, b.text(".cause .cause-counts"), "30 failed attempts")
	assert.Contains(t, b.text(".cause .bytes"), "northern-region", "the answer is shown")
	assert.Contains(t, b.text(".cause .senders tbody"), "analytics-go 1.2")
	assert.Equal(t, 3, b.count("section[aria-labelledby=failed] .cause:first-of-type .examples .type"))
	mended.Store(true)
	click(".cause header .button")
	b.waitText("h1", "Replay to crm")
	b.ready()
	b.waitText("main", "Replay 30 calls from the last hour")
	assert.Equal(t, 1, b.count("button[name=choice]"), "none failed before the last hour")
	click("button[name=choice]")
	b.waitText(".notice", "Replaying 30 calls to crm.")
	b.waitText(".run", "30 delivered")
	assert.Equal(t, 3, clicks)
	b.open("/problems")
	b.waitText(".run", "30 delivered")
	assert.NotContains(t, b.text(".run"), "pending")
	ledgers, err := collector.Ledger(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 30, ledgers[0].Delivered)
	assert.EqualValues(t, 1, ledgers[0].Failed, "that of the other cause")
	assert.Contains(t, b.text(".kept"), "crm: 1 failed call")

	// The page reports a replay that fails again.
	b.click(".kept .button")
	b.waitText("main", "with any cause")
	b.ready()
	b.click("button[name=choice]")
	b.waitText(".run", "1 failed again")
}

func TestReplayCauseByKeyboard(t *testing.T) {
	t.Parallel()
	b, _, _, mended := failingShop(t, 2)
	mended.Store(true)
	b.open("/")
	b.tabTo(`.top a[href="/problems"]`)
	b.press(kb.Enter)
	b.waitText("h1", "Problems")
	b.ready()
	b.tabTo(".cause header .button")
	b.press(kb.Enter)
	b.waitText("h1", "Replay to crm")
	b.ready()
	b.tabTo("button[name=choice]")
	b.press(kb.Enter)
	b.waitText(".run", "2 delivered")
}

func TestFindSenderOfRejectedCallInTwoClicks(t *testing.T) {
	t.Parallel()
	b, _, _, _ := failingShop(t, 1)
	b.open("/")
	b.click(`.top a[href="/problems"]`)
	b.waitText("h1", "Problems")
	b.ready()
	rejected := eval[string](b, `[...document.querySelectorAll('.cause.is-rejected')].map((c) => c.textContent).find((t) => t.includes('event_not_defined'))`)
	assert.Contains(t, rejected, "127.0.0.1")
	assert.Contains(t, rejected, "Go-http-client")
	assert.Contains(t, rejected, "shop-scripts 7")

	// The panel of the refused request shows the body and the sender, but not the write key.
	b.run(`[...document.querySelectorAll('.cause.is-rejected')].find((c) => c.textContent.includes('invalid_json')).querySelector('.examples a').click()`)
	b.waitText("#panel .facts", "127.0.0.1")
	assert.Contains(t, b.text("#panel .facts"), "POST /v1/batch")
	assert.Equal(t, `{"writeKey":"*******","batch":[}`, strings.TrimSpace(b.text("#panel .json")))
}

func TestReplayCauseErrors(t *testing.T) {
	t.Parallel()
	b, url, _, _ := failingShop(t, 1)
	b.open("/problems/replay?destination=nobody")
	b.waitText("h1", "Destination not found")
	b.open("/problems/replay?destination=crm&cause=something+else")
	b.waitText("main", "No calls to replay")
	b.forgive("404")
	res, err := http.PostForm(url+"/problems/replay", map[string][]string{"destination": {"crm"}, "choice": {"hour"}, "hour": {"x"}, "until": {"y"}})
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
}

func TestDestinationShowsMeasures(t *testing.T) {
	t.Parallel()
	b, _, collector, _ := failingShop(t, 3)
	b.open("/destinations")
	assert.Contains(t, b.text("tbody"), "Failing")
	assert.Contains(t, b.text("tbody"), "0 %of 4 attempts")
	b.open("/destination?name=crm")
	assert.Contains(t, b.text(".measures"), "since")
	assert.Contains(t, b.text(".measures tbody"), "Last hour440 %")
	assert.Contains(t, b.text(".last-failure"), "responded with 4")
	b.click(".last-failure a")
	b.waitText("#panel .destination", "failed")
	_, ok := collector.History().Item(history.RefOfCall("web shop", "order-0"))
	assert.True(t, ok)
}

func TestNoProblems(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	b.open("/problems")
	assert.Contains(t, b.text("main"), "No problems")
	assert.Equal(t, 0, b.count(".cause"))
}

func TestHostileSendersAreShownAsText(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	const evil = `<img src=x onerror=alert(1)>`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/batch", strings.NewReader(`{"context":{"library":{"name":"<b>\u202e`+evil+`"}},"batch":[{"type":"track","userId":"u"}], "`+evil))
	require.NoError(t, err)
	req.SetBasicAuth("web-key", "")
	req.Header.Set("User-Agent", evil)
	res, err := sender.Do(req)
	require.NoError(t, err)
	res.Body.Close()
	require.Len(t, collector.Problems().Refused, 1)
	b := newTab(t, srv.URL)
	b.open("/problems")
	assert.Contains(t, b.text(".senders"), evil)
	assert.Contains(t, b.text(".senders"), "U+202E")
	assert.Equal(t, 0, b.count("main img"))
	b.click(".examples a")
	b.waitText("#panel .json", evil)
	assert.Equal(t, 0, b.count("main img"))
}

func TestWrongAddressLeadsBack(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{}, "")
	b := newTab(t, srv.URL)
	b.forgive("404")
	b.do(navigate(srv.URL + "/destination/crm"))
	b.waitText("main", "Page not found")
	judge(b, axe(t), "a wrong URL")
	b.shoot("not-found")
	b.click("main a.button")
	b.wait(`location.pathname === '/'`)
	assert.Empty(t, collector.History().Refusals())
}
