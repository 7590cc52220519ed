package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// postOdd sends ten calls of an event, one with an anomaly, and a call of another event.
func postOdd(t *testing.T, base, writeKey string) {
	t.Helper()
	var calls []string
	for i := range 9 {
		calls = append(calls, track(fmt.Sprint("odd", i), "ada", "Order Shipped", fmt.Sprintf(
			`{"orderId":"o-%d","quantity":%d,"currency":"EUR","total":%d.5,"shippedAt":"2026-11-23T12:00:00Z","address":{"city":"Ulm","zip":"89073"},"items":[{"sku":"TEA-7","price":4.5},{"sku":"CUP-%d","price":9}],"gift":%t}`, i, 1+i%3, 20+i, i, i%2 == 0)))
	}
	calls = append(calls, track("odd9", "grace", "Order Shipped", `{"orderId":"o-9","quantity":"2","currency":"eur","total":12,"order_id":"o-9","\u202e.hostile]":"<script>alert(1)</script>\u0000"}`),
		track("alike", "grace", "order_shipped", `{}`))
	post(t, base, writeKey, calls...)
}

// oddEvent returns the path of the page of the event with the anomaly.
func oddEvent(source string) string {
	return "/event?" + url.Values{"source": {source}, "type": {"track"}, "name": {"Order Shipped"}}.Encode()
}

// TestAnomalyLinksToCall opens the call with an anomaly in three clicks.
func TestAnomalyLinksToCall(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	b := newTab(t, srv.URL)
	b.open("/events")
	assert.Equal(t, "2 events", eval[string](b, `document.querySelectorAll('.table tbody tr').length + ' events'`))
	assert.Contains(t, eval[string](b, `document.querySelector('.table tbody').textContent`), "Order Shipped (10 calls) is similar to order_shipped (1 call).")
	b.click(`.table a[href*="Order"]`)
	b.wait(`document.querySelector('h1')?.textContent.includes('Order Shipped')`)
	odd := eval[[]string](b, `[...document.querySelectorAll('.oddities li > span')].map((e) => e.textContent)`)
	assert.Equal(t, []string{
		"Order Shipped (10 calls) is similar to order_shipped (1 call).",
		`currency has similar values: "eur" (1) and "EUR" (9).`,
		"quantity is usually a number, but a string in 10 % (1 of 10 values).",
		"order_id (1 call) is similar to orderId (10 calls).",
	}, odd)
	row := func(path string) string {
		return eval[string](b, `[...document.querySelectorAll('.properties tbody tr')].find((r) => r.querySelector('th').textContent === `+quote(path)+`)?.innerText.replace(/\s+/g, ' ') ?? ''`)
	}
	assert.Contains(t, row("quantity"), "100 % integer 90 % string 10 %")
	assert.Contains(t, row("items[].sku"), "90 % string")
	assert.Contains(t, row("shippedAt"), "date-time")
	assert.False(t, eval[bool](b, `document.body.innerText.includes('\u202e')`), "what disturbs the text is shown by its name")

	b.click(`.oddities a[href*="has=string"]`)
	b.wait(`document.querySelector('.with') !== null`)
	assert.Equal(t, `["grace \"2\""]`, eval[string](b, `JSON.stringify([...document.querySelectorAll('.with li')].map((e) => [...e.children].slice(1).map((c) => c.textContent).join(' ')))`))
	b.click(`.with a`)
	b.wait(`document.querySelector('#panel-title')?.textContent === 'Order Shipped'`)
	assert.Contains(t, eval[string](b, `document.querySelector('#panel').textContent`), `"o-9"`)
}

func TestEventPageByKeyboard(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	b := newTab(t, srv.URL)
	b.open("/events")
	b.tabTo(`#find`)
	b.press("order_\r")
	b.wait(`location.search.includes('find=order_') && document.querySelectorAll('.events tbody tr').length === 1`)
	b.open("/events")
	b.tabTo(`.events a[href*="Order"]`)
	b.press("\r")
	b.wait(`document.querySelector('h1')?.textContent.includes('Order Shipped')`)
	b.tabTo(`.oddities a[href*="has=string"]`)
	b.press("\r")
	b.wait(`document.querySelector('.with') !== null`)
	b.tabTo(`.with a`)
	b.press("\r")
	b.wait(`document.querySelector('#panel-title')?.textContent === 'Order Shipped'`)
}

func TestEventExportAndReset(t *testing.T) {
	t.Parallel()
	srv, collector := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	b := newTab(t, srv.URL)
	b.open(oddEvent("web shop"))
	code := func() string {
		return eval[string](b, `[...document.querySelectorAll('[role=tabpanel]')].find((p) => p.checkVisibility()).querySelector('code').textContent`)
	}
	assert.Contains(t, code(), `"$schema": "https://json-schema.org/draft/2020-12/schema"`)
	b.click(`#tab-export-go`)
	assert.Contains(t, code(), "srv.Expect(t, mockserver.Like(`{")
	b.click(`#tab-export-plan`)
	assert.Equal(t, "collector plan infer --collector --source 'web shop' > plan.yaml", code())
	b.click(`.forget summary`)
	b.click(`.forget button`)
	b.wait(`location.pathname === '/events' && document.querySelector('.notice') !== null`)
	assert.Len(t, collector.Shapes().Events(), 1)
	b.do(navigate(srv.URL + oddEvent("web shop")))
	b.wait(`document.body.textContent.includes('Event not found')`)
	b.forgive("404")
}

func TestEventPageIsLive(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	b := newTab(t, srv.URL)
	b.open(oddEvent("web shop"))
	post(t, srv.URL, "web-key", track("more", "ken", "Order Shipped", `{"later":true}`))
	b.wait(`document.querySelector('.properties').textContent.includes('later')`)
}

func TestEventsWithoutScripts(t *testing.T) {
	t.Parallel()
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	for path, wants := range map[string][]string{
		"/events?odd=true&source=web+shop&find=SHIPPED":         {"Order Shipped", "order_shipped"},
		"/events?find=none":                                     {"No matches among 2 events."},
		oddEvent("web shop"):                                    {"Anomalies", "JSON Schema", "&lt;script&gt;alert(1)"},
		oddEvent("web shop") + "&path=currency&value=%22eur%22": {"&#34;eur&#34;", "grace"},
		oddEvent("web shop") + "&path=none":                     {"Anomalies"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		content, err := io.ReadAll(res.Body)
		res.Body.Close()
		require.NoError(t, err)
		body := string(content)
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		for _, want := range wants {
			assert.Contains(t, body, want, path)
		}
	}
}

// TestPicturesOfEvents takes screenshots of the event pages. event-light is docs/event.png.
func TestPicturesOfEvents(t *testing.T) {
	t.Parallel()
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder for them")
	}
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}, {Name: "ios app", WriteKey: "ios-key"}, {Name: "backend", WriteKey: "back-key"}}}, "")
	for range 40 {
		busyMoment(t, srv.URL, 0)
	}
	postShipments(t, srv.URL, "web-key", 480)
	b := newTab(t, srv.URL)
	for _, look := range []struct {
		name          string
		dark          bool
		width, height int64
	}{{"light", false, 1440, 900}, {"dark", true, 1440, 900}, {"medium", false, 1024, 768}, {"tablet", false, 768, 1024}, {"narrow", false, 390, 844}, {"narrow-dark", true, 390, 844}} {
		b.dark(look.dark)
		b.size(look.width, look.height)
		for name, path := range map[string]string{"events": "/events", "event": oddEvent("web shop"), "event-with": oddEvent("web shop") + "&path=quantity&has=string#with"} {
			b.open(path)
			b.shoot(name + "-" + look.name)
		}
	}
}

// postShipments sends calls with anomalies.
func postShipments(t *testing.T, base, writeKey string, n int) {
	t.Helper()
	var calls []string
	for i := range n {
		quantity, currency, coupon := fmt.Sprint(1+i%4), "EUR", ""
		switch {
		case i%12 == 5:
			quantity = quote(quantity)
		case i%60 == 7:
			currency = "eur"
		case i%9 == 3:
			currency, coupon = "USD", `"coupon":"WELCOME",`
		}
		name := "Order Shipped"
		if i%70 == 9 {
			name = "order_shipped"
		}
		carrier := ""
		if i > n/2 {
			carrier = `"carrier":"DHL",`
		}
		calls = append(calls, track(fmt.Sprint("ship", i), []string{"ada", "grace", "linus"}[i%3], name, fmt.Sprintf(
			`{"orderId":"o-%d","quantity":%s,"currency":%q,%s%s"total":%d.5,"shippedAt":"2026-11-23T12:%02d:00Z","address":{"city":%q,"zip":"%05d"},"items":[{"sku":"TEA-%d","price":4.5}],"gift":%t}`,
			5000+i, quantity, currency, coupon, carrier, 20+i%37, i%60, []string{"Ulm", "Bern", "Graz"}[i%3], 10000+97*i, i%30, i%5 == 0)))
	}
	for len(calls) > 0 {
		batch := calls[:min(100, len(calls))]
		post(t, base, writeKey, batch...)
		calls = calls[len(batch):]
	}
}

func TestEventsAreSorted(t *testing.T) {
	t.Parallel()
	script := axe(t)
	srv, _ := serve(t, engine.Config{Sources: []tracking.Source{{Name: "web shop", WriteKey: "web-key"}}}, "")
	postOdd(t, srv.URL, "web-key")
	post(t, srv.URL, "web-key", track("a1", "ada", "Account Closed", `{}`))
	b := newTab(t, srv.URL)
	b.open("/events")
	assert.Contains(t, b.text(".table tbody tr"), "Account Closed")
	b.click(`.table thead a[href*="calls"]`)
	b.wait(`document.querySelector('[aria-sort=descending]')?.textContent === 'Calls'`)
	b.ready()
	assert.Contains(t, b.text(".table tbody tr"), "Order Shipped")
	judgeLightAndDark(b, script, "sorted events")
	shootWidths(b, "events-sorted")
	b.look(390, 844, false)
	judge(b, script, "sorted events, narrow")
	b.click(`.table thead a[href*="event"]`) // the header remains usable
	b.wait(`document.querySelector('[aria-sort=ascending]')?.textContent === 'Event'`)
	assert.Contains(t, b.text(".table tbody tr"), "Account Closed")
}
