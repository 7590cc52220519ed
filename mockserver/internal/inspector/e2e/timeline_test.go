package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// journey starts a collector with the calls of a user who was anonymous at first.
func journey(t *testing.T) *httptest.Server {
	t.Helper()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{
		Sources:      []tracking.Source{{Name: "web shop", WriteKey: "web-key"}},
		Destinations: []tracking.Destination{to("warehouse", good.URL, "s3cret"), to("mail", gone.URL, "")},
	}, "")
	start := time.Now().Add(-100 * time.Hour).UTC()
	at := func(after time.Duration, call string) string {
		now := start.Add(after).Format(time.RFC3339)
		return fmt.Sprintf(`{"timestamp":%q,"originalTimestamp":%q,`, now, now) + call[1:]
	}
	post(t, srv.URL, "web-key",
		at(0, `{"type":"page","messageId":"j1","anonymousId":"f3b9c2d4-77aa-4e1b","category":"Docs","name":"Pricing","properties":{"path":"/pricing","referrer":"https://search.example"}}`),
		at(40*time.Second, `{"type":"track","messageId":"j2","anonymousId":"f3b9c2d4-77aa-4e1b","event":"Product Viewed","properties":{"sku":"B-17","price":9.50,"orderId":90071992547409931,"tags":["new","<b>"]}}`),
		at(3*time.Minute, `{"type":"track","messageId":"j3","anonymousId":"f3b9c2d4-77aa-4e1b","event":"Product Viewed","properties":{"price":12.00,"sku":"B-18","orderId":90071992547409932,"coupon":"SPRING","tags":["new","<b>"]}}`),
		at(4*time.Minute, `{"type":"identify","messageId":"j4","anonymousId":"f3b9c2d4-77aa-4e1b","userId":"ada","traits":{"plan":"Free","email":"ada@example.com","address":{"city":"London","zip":"N1"}}}`),
		at(76*time.Hour, `{"type":"identify","messageId":"j5","userId":"ada","traits":{"plan":"Pro","email":"ada@example.com","address":{"city":"Paris"},"seats":3}}`),
		at(76*time.Hour+20*time.Second, `{"type":"track","messageId":"j6","userId":"ada","event":"Order Completed","properties":{"total":129.50,"currency":"EUR","items":[{"sku":"B-17","quantity":2},{"sku":"B-18","quantity":1}]}}`),
		at(77*time.Hour, `{"type":"alias","messageId":"j7","previousId":"ada","userId":"ada@example.com"}`),
		at(77*time.Hour, `{"type":"group","messageId":"j8","userId":"ada@example.com","groupId":"acme","traits":{"seats":12}}`),
		track("other", "somebody else", "Product Viewed", `{}`),
		`{"type":"track","userId":"ada"}`,
	)
	settleBoth(t, collector, 9)
	return srv
}

// settleBoth waits until no call is pending at both destinations.
func settleBoth(t *testing.T, collector *engine.Collector, calls int) {
	t.Helper()
	for {
		changed := collector.History().Changed()
		done := len(collector.History().Records(func(r *tracking.Record) bool { return len(r.Ends) >= 2 }))
		if done == calls {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience):
			require.Fail(t, "not settled", "%d calls of %d", done, calls)
		}
	}
}

func TestTimelineIsOneClickFromTheList(t *testing.T) {
	t.Parallel()
	srv := journey(t)
	b := newTab(t, srv.URL)
	b.open("/?event=Order")
	b.click("#rows .c-user a")
	b.waitText("h1", "User ada")
	b.ready()
	var titles []string
	for _, line := range strings.Split(eval[string](b, `[...document.querySelectorAll('.entry-head .title')].map((e) => e.textContent).join('\n')`), "\n") {
		titles = append(titles, strings.TrimSpace(line))
	}
	assert.Equal(t, []string{"Docs / Pricing", "Product Viewed", "Product Viewed", "user traits", "user traits", "Order Completed", "ada → ada@example.com", "acme", "unnamed"}, titles)
	assert.Equal(t, []string{"2 minutes later", "1 minute later", "3 days later", "59 minutes later", "23 hours later"}, eval[[]string](b, `[...document.querySelectorAll('.between')].map((e) => e.textContent)`))
	assert.Contains(t, b.text("#c4"), "Linked f3b9c2d4-77aa-4e1b and ada")
	assert.Contains(t, b.text("#c5 .changes"), `plan "Free" → "Pro"`)
	assert.Contains(t, b.text("#c5 .changes"), `address.city "London" → "Paris"`)
	assert.Contains(t, b.text("#c5 .changes"), `removed: address.zip "N1"`)
	assert.Contains(t, b.text("#c5 .changes"), `added: seats 3`)
	assert.Contains(t, b.text("#c5 .changes"), `1 trait unchanged`)
	assert.Contains(t, b.text("#c2 .preview"), `orderId 90071992547409931`)
	assert.Equal(t, 1, b.count("#c6 .is-delivered"))
	assert.Equal(t, 1, b.count("#c6 .is-failed"))
	assert.Contains(t, b.text("#c9"), "event_not_defined")
	assert.Contains(t, b.text(".ids"), "f3b9c2d4-77aa-4e1b")
	assert.Contains(t, b.text(".ids"), "linked to ada by an identify call")
	b.shoot("timeline")

	b.open("/?event=Pricing")
	b.click("#rows .c-title a")
	b.waitText("#panel h2", "Pricing")
	b.click(`#panel .facts a`)
	b.waitText("h1", "User f3b9c2d4-77aa-4e1b")
	assert.Equal(t, 9, b.count(".entry"), "by any of the ids")
}

func TestTimelineReportsNewCalls(t *testing.T) {
	t.Parallel()
	srv := journey(t)
	b := newTab(t, srv.URL)
	b.open("/user?id=ada")
	post(t, srv.URL, "web-key", track("n1", "ada", "Signed Out", `{}`), track("n2", "somebody else", "Signed Out", `{}`))
	b.waitText("#fresh", "Show 1 new call")
	b.click("#fresh a")
	b.waitText(".entries", "Signed Out")
	b.waitText(".timeline h2", "10 calls")
}

func TestTwoCallsAreComparedInThreeClicks(t *testing.T) {
	t.Parallel()
	srv := journey(t)
	b := newTab(t, srv.URL)
	b.open("/user?id=ada")
	assert.True(t, eval[bool](b, `document.querySelector('.compare-bar button').disabled`))
	b.click("#c6 .pick")
	b.click("#c2 .pick")
	b.click("#c3 .pick") // deselects the first call
	assert.False(t, eval[bool](b, `document.querySelector('#c6 input').checked`))
	b.click(".compare-bar button")
	b.waitText("h1", "Compare calls")
	assert.Equal(t, "4 differences", b.text(".card:not(.compared) h2"))
	paths := eval[[]string](b, `[...document.querySelectorAll('section .paths tbody tr')].map((e) => e.textContent.replace(/\s+/g, ' ').trim())`)
	assert.Equal(t, []string{
		`properties.sku changed "B-17" "B-18"`, `properties.price changed 9.50 12.00`,
		`properties.orderId changed 90071992547409931 90071992547409932`, `properties.coupon only in second nothing "SPRING"`,
	}, paths)
	assert.False(t, eval[bool](b, `document.querySelector('details').open`), "what is the same is folded")
	b.shoot("compare")

	b.open("/user?id=ada") // one click compares a call with the previous call of the same event
	b.click(`#c3 .more > a[href^="/compare"]`)
	b.waitText("h1", "Compare calls")
	assert.Equal(t, "4 differences", b.text(".card:not(.compared) h2"))

	b.open("/?event=Order")
	b.click("#rows .c-title a")
	b.waitText("#panel h2", "Order Completed")
	b.click(`#panel a[href^="/compare"]`)
	b.waitText("h1", "Compare a call")
	b.waitText(".card:not(.compared)", "No other calls of this event.")
}

func TestTimelineByKeyboard(t *testing.T) {
	t.Parallel()
	srv := journey(t)
	b := newTab(t, srv.URL)
	b.open("/user")
	b.tabTo("#id")
	b.press("ada" + kb.Enter)
	b.waitText("h1", "User ada")
	b.ready()
	b.tabTo("#c2 input")
	b.press(" ")
	b.tabTo("#c2 summary")
	b.press(kb.Enter)
	b.wait(`document.querySelector('#c2 details').open`)
	b.tabTo("#c3 input")
	b.press(" ")
	b.press(kb.Enter) // submits the form
	b.waitText("h1", "Compare calls")
	b.ready()
	b.tabTo("details summary")
	b.press(kb.Enter)
	b.wait(`document.querySelector('details').open`)
}

// userPaths returns the paths of the user pages.
func userPaths(b *tab) []string {
	b.open("/user?id=ada")
	refs := eval[[]string](b, `[...document.querySelectorAll('[name=call]')].map((e) => e.value)`)
	return []string{
		"/user", "/user?id=nobody", "/user?id=ada", "/compare", "/compare?call=" + refs[1], "/compare?call=" + refs[1] + "&call=" + refs[2],
		"/compare?call=" + refs[1] + "&call=" + refs[5],
	}
}

func TestUserPagesAreAccessible(t *testing.T) {
	t.Parallel()
	script, contrast := axe(t), []string{"color-contrast"}
	b := newTab(t, journey(t).URL)
	for _, path := range userPaths(b) {
		b.size(390, 844)
		b.open(path)
		for _, look := range []struct {
			name  string
			dark  bool
			width int64
			rules []string
		}{{"narrow", false, 390, nil}, {"narrow and dark", true, 390, contrast}, {"tablet", false, 768, nil}, {"dark", true, 1440, contrast}, {"light", false, 1440, nil}} {
			b.look(look.width, 844, look.dark)
			assert.Empty(t, eval[[]string](b, sideways), "%s, %s, scrolls sideways", path, look.name)
			assert.Empty(t, eval[[]string](b, smallTargets), "%s, %s, has small targets", path, look.name)
			assert.Empty(t, eval[[]string](b, cutNames), "%s, %s, cuts names", path, look.name)
			b.run(`document.querySelectorAll('details').forEach((d) => { d.open = true })`)
			judge(b, script, path+", "+look.name, look.rules...)
			b.run(`document.querySelectorAll('details').forEach((d) => { d.open = false })`)
		}
	}
}

// TestPicturesOfAUser takes screenshots of the user pages. user-2-light is
// docs/timeline.png.
func TestPicturesOfAUser(t *testing.T) {
	t.Parallel()
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder for them")
	}
	b := newTab(t, journey(t).URL)
	for n, path := range userPaths(b) {
		for _, look := range []struct {
			name  string
			dark  bool
			width int64
		}{{"light", false, 1280}, {"dark", true, 1440}, {"narrow", false, 390}, {"narrow-dark", true, 390}, {"tablet", false, 1024}} {
			b.dark(look.dark)
			b.size(look.width, 900)
			b.open(path)
			b.shoot(fmt.Sprintf("user-%d-%s", n, look.name))
		}
	}
}

func TestRecentUsersLinkToTheirTimelines(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv := journey(t)
	b := newTab(t, srv.URL)
	b.open("/user")
	assert.Equal(t, 4, b.count("tbody tr"))
	judgeLightAndDark(b, script, "recent users")
	shootWidths(b, "users")
	b.look(390, 844, false)
	judge(b, script, "recent users, narrow")
	post(t, srv.URL, "web-key", track("new", "grace", "Signed Up", `{}`))
	b.waitText("tbody tr", "grace") // the list reloads
	b.click("tbody a")
	b.waitText("h1", "grace")
}
