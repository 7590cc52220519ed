package e2e

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
