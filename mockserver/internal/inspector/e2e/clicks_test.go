package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestClicksToFrequentQuestions counts the clicks from the Calls page to frequent questions.
func TestClicksToFrequentQuestions(t *testing.T) {
	t.Parallel()
	b, _, _, mended := failingShop(t, 3)
	clicks := 0
	click := func(selector string) { clicks++; b.click(selector) }
	ask := func(path string) { clicks = 0; b.open(path) }

	ask("/") // why did a call not arrive?
	click("#rows tr:has(.is-failed) .c-title a")
	b.waitText("#panel .destination.is-failed .reason", "responded with 4")
	assert.LessOrEqual(t, clicks, 2)

	ask("/") // who sent the bad call?
	click(`.top a[href="/problems"]`)
	b.wait(`[...document.querySelectorAll(".cause.is-rejected .senders")].some((e) => e.textContent.includes("shop-scripts 7"))`)
	assert.LessOrEqual(t, clicks, 2)

	ask("/") // what did one user do, in order?
	click("#rows .c-user a")
	b.waitText("h1", "User ada")
	b.ready()
	assert.LessOrEqual(t, clicks, 1)

	clicks = 0 // what differs between two calls?
	click("#c1 .pick")
	click("#c2 .pick")
	click(".compare-bar button")
	b.waitText("h1", "Compare calls")
	assert.LessOrEqual(t, clicks, 3)

	mended.Store(true)
	ask("/") // replay the failures of the last hour
	click(`.top a[href="/problems"]`)
	b.waitText("h1", "Problems")
	b.ready()
	click(".cause header .button")
	b.waitText("h1", "Replay to crm")
	b.ready()
	click("button[name=choice]")
	b.waitText(".run", "3 delivered")
	assert.LessOrEqual(t, clicks, 3)
}

// TestClicksToFrequentTasks counts the clicks from the Calls page to the end of frequent tasks.
// Typing does not count.
func TestClicksToFrequentTasks(t *testing.T) {
	t.Parallel()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	signed := to("warehouse", good.URL, "s3cret")
	srv, collector := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}, Destinations: []tracking.Destination{signed}}, "")
	require.NoError(t, collector.AddDestination(t.Context(), to("crm", gone.URL, "")))
	postOdd(t, srv.URL, "web-key")
	post(t, srv.URL, "web-key", track("m1", "ada", "Signed Up", `{"plan":"Pro"}`))
	settle(t, collector)
	downloads := make(chan string, 1)
	b := newTab(t, front(t, srv.URL, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/calls.jsonl" {
			downloads <- r.URL.Query().Get("q")
		}
		return false
	}))
	command(b, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{Behavior: browser.SetDownloadBehaviorBehaviorAllow, DownloadPath: t.TempDir(), BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID})
	clicks := 0
	click := func(selector string) { clicks++; b.click(selector) }
	search := func(text string) {
		b.set("#q", text)
		b.wait(`document.querySelectorAll('#rows tr').length === 1`)
	}
	for _, task := range []struct {
		name   string
		clicks int
		do     func()
	}{
		{"find a call by a property", 0, func() {
			search("prop.plan:Pro")
			b.waitText(row(1), "Signed Up")
		}},
		{"send a failed call again", 2, func() {
			search("prop.plan:Pro")
			gone.status.Store(http.StatusOK)
			click(row(1) + " a")
			click("#panel .destination.is-failed form button")
			b.waitText("#toast", "crm: delivered")
		}},
		{"payload and signature of a request", 2, func() {
			search("prop.plan:Pro")
			click(row(1) + " a")
			b.waitText("#panel", `"plan": "Pro"`)
			click(`#panel .attempt[data-key^="warehouse"] summary`)
			b.waitText("#panel", "X-Signature")
		}},
		{"a property with changed types", 2, func() {
			click(`.top a[href="/events"]`)
			b.waitText("h1", "Events")
			b.ready()
			click(`.table a[href*="Order+Shipped"], .table a[href*="Order%20Shipped"]`)
			b.waitText(".oddities", "quantity is usually a number, but a string")
		}},
		{"add a destination and test it", 4, func() {
			click(`.top a[href="/destinations"]`)
			b.waitText("h1", "Destinations")
			b.ready()
			click(`a[href="/destinations/new"]`)
			b.waitText("h1", "New destination")
			b.ready()
			b.typeInto("#name", "ads")
			b.typeInto("#url0", good.URL)
			click("[data-result=test]")
			b.waitText("#test", "Accepted: 200")
			click(".save .primary")
			b.waitText(".notice", "Destination saved.")
		}},
		{"pause a destination", 2, func() {
			click(`.top a[href="/destinations"]`)
			b.waitText("h1", "Destinations")
			b.ready()
			click(`form[action="/destinations/pause"]:has([value=crm]) button`)
			b.waitText("#refresh", "paused")
			assert.True(t, slices.ContainsFunc(collector.Status(), func(s engine.DestinationStatus) bool { return s.Destination == "crm" && s.Paused }))
		}},
		{"download the calls of a search", 1, func() {
			search("prop.plan:Pro")
			click(`.export a[href*="jsonl"]`)
			select {
			case q := <-downloads:
				assert.Equal(t, "prop.plan:Pro", q)
			case <-time.After(patience):
				t.Error("the browser downloaded nothing")
			}
		}},
		{"share a call with its search", 1, func() {
			search("prop.plan:Pro")
			click(row(1) + " a")
			b.waitText("#panel h2", "Signed Up")
			b.wait(`location.search.includes('call=') && location.search.includes('q=')`)
			link := eval[string](b, `location.pathname + location.search`)
			b.open(link)
			assert.Equal(t, "prop.plan:Pro", b.search())
			assert.Contains(t, b.text("#panel h2"), "Signed Up")
		}},
	} {
		clicks = 0
		b.open("/")
		task.do()
		assert.Equal(t, task.clicks, clicks, task.name)
	}
}

func TestEventNamesLinkToEventPage(t *testing.T) {
	t.Parallel()
	b, _, _, _ := failingShop(t, 1)
	for _, from := range []struct{ path, link string }{
		{"/?event=Order", "#panel h2 a"}, {"/user?id=ada", "#c1 .more > a"}, {"/problems", `.cause .examples a[href^="/event"]`},
	} {
		b.open(from.path)
		if from.path == "/?event=Order" {
			b.click("#rows .c-title a")
			b.waitText("#panel h2", "Order Completed")
		}
		b.click(from.link)
		b.wait(`location.pathname === '/event'`)
		b.ready()
		assert.Contains(t, b.text("h1"), "track", from.path)
	}
}
