package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestPictures takes screenshots of every page after some minutes of calls, in both themes and
// several widths. call-light is docs/inspector.png.
func TestPictures(t *testing.T) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder for them")
	}
	good, gone, busy := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound), newReceiver(t, http.StatusServiceUnavailable)
	srv, collector := serve(t, engine.Config{
		AnyWriteKey: true,
		Sources:     []tracking.Source{{Name: "web shop", WriteKey: "web-key"}, {Name: "ios app", WriteKey: "ios-key"}, {Name: "backend", WriteKey: "back-key"}},
		Destinations: []tracking.Destination{
			to("warehouse", good.URL, "s3cret"), to("crm", busy.URL, "s3cret", "backend"),
		},
	}, "")
	require.NoError(t, collector.AddDestination(t.Context(), to("alerts", gone.URL, "", "ios app")))
	for _, a := range []users.SyncRequest{
		{Name: "Big Spenders", Source: "web shop", Destination: "warehouse", List: strings.NewReader("ada\ngrace\nlinus")},
		{Name: "Everyone", Source: "backend", Destination: "crm", List: strings.NewReader("ada\nken")}, // crm is down
	} {
		a.Kind = users.KindAudience
		_, err := collector.Users().StartSync(t.Context(), a)
		require.NoError(t, err)
	}
	_, err := collector.Users().DeleteUsers(t.Context(), users.DeletionRequest{ID: "gdpr-2026-117", UserIDs: []string{"ken"}})
	require.NoError(t, err)
	postOdd(t, srv.URL, "web-key")
	b := newTab(t, srv.URL)
	for at := 290 * time.Second; at >= 0; at -= 2 * time.Second {
		busyMoment(t, srv.URL, at)
		settle(t, collector)
		time.Sleep(2 * time.Second)
	}
	b.open("/?text=order-5512")
	b.wait(`document.querySelector('#rows .is-delivered') !== null`)
	ref := eval[string](b, `document.querySelector('#rows tr').dataset.ref`)
	for _, look := range []struct {
		name          string
		dark          bool
		width, height int64
	}{
		{"light", false, 1440, 900}, {"dark", true, 1440, 900}, {"1024", false, 1024, 900}, {"1024-dark", true, 1024, 900},
		{"910", false, 910, 900}, {"910-dark", true, 910, 900}, {"narrow", false, 390, 844}, {"narrow-dark", true, 390, 844},
	} {
		b.dark(look.dark)
		b.size(look.width, look.height)
		for name, path := range map[string]string{
			"calls": "/", "call": "/?call=" + ref, "filter": "/?status=failed", "older": "/?before=200", "replay": "/replay?type=track", "destinations": "/destinations",
			"problems": "/problems", "problem-replay": "/problems/replay?destination=alerts",
			"destination": "/destination?name=alerts", "configured": "/destination?name=crm", "new": "/destinations/new", "signatures": "/signatures", "signature": "/signatures?destination=warehouse&call=" + ref,
			"audiences": "/audiences", "deletions": "/deletions", "deletion": "/deletion?id=gdpr-2026-117",
			"sources": "/sources", "users": "/user", "user": "/user?id=ada", "plans": "/plans", "events": "/events", "event": oddEvent("web shop"), "event-with": oddEvent("web shop") + "&path=quantity&has=string",
		} {
			if name == "older" {
				b.do(navigate(srv.URL + path))
				b.wait(`document.querySelector('#live').dataset.state === 'off'`)
			} else {
				b.open(path)
			}
			if name == "call" {
				b.run(`document.querySelector('#panel .copy-as').open = true`)
			}
			b.shoot(name + "-" + look.name)
		}
	}
}

// settle waits until no call is pending, except at crm.
func settle(t *testing.T, collector *engine.Collector) {
	t.Helper()
	deadline := time.After(patience)
	for {
		changed := collector.History().Changed()
		ledgers, err := collector.Ledger(t.Context())
		require.NoError(t, err)
		pending := int64(0)
		for _, l := range ledgers {
			if l.Destination != "crm" {
				pending += l.Pending
			}
		}
		if pending == 0 {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.Fail(t, "calls are still pending", "%+v", ledgers)
		}
	}
}

// busyMoment sends the calls of two seconds.
func busyMoment(t *testing.T, url string, at time.Duration) {
	random := rand.New(rand.NewPCG(uint64(at), 7))
	users := []string{"ada", "grace", "linus", "margaret", "ken"}
	events := []string{"Product Viewed", "Product Added", "Checkout Started", "Order Completed", "Coupon Applied"}
	var web, ios []string
	for i := range 2 + random.IntN(9) {
		id, user := fmt.Sprintf("%d-%d", at/time.Second, i), users[random.IntN(len(users))]
		switch random.IntN(6) {
		case 0:
			web = append(web, fmt.Sprintf(`{"type":"page","messageId":"p%s","anonymousId":"f3b9c2d4-77aa-4e1b","category":"Docs","name":"Getting started","properties":{"path":"/docs/start"}}`, id))
		case 1:
			ios = append(ios, fmt.Sprintf(`{"type":"screen","messageId":"s%s","userId":%q,"name":"Basket"}`, id, user))
		case 2:
			web = append(web, fmt.Sprintf(`{"type":"identify","messageId":"i%s","userId":%q,"traits":{"plan":"Pro"}}`, id, user))
		default:
			web = append(web, track("t"+id, user, events[random.IntN(len(events))], `{"orderId":90071992547409931,"total":129.50,"items":[{"sku":"B-17","unit price":9.5}]}`))
		}
	}
	if len(web) > 0 {
		post(t, url, "web-key", web...)
	}
	if len(ios) > 0 && random.IntN(3) == 0 {
		post(t, url, "ios-key", ios...)
	}
	if at%(20*time.Second) == 0 {
		post(t, url, "back-key", track("b"+fmt.Sprint(at), "ken", "Invoice Paid", `{"amount":4200}`), `{"type":"track","userId":"ken"}`)
	}
	if at == 0 {
		sent := time.Now().Add(-95 * time.Second).UTC().Format(time.RFC3339Nano)
		body := fmt.Sprintf(`{"sentAt":%q,"batch":[{"type":"track","messageId":"order-5512","userId":"ada","event":"Order Completed","timestamp":%q,
			"properties":{"orderId":90071992547409931,"total":129.50,"currency":"EUR","items":[{"sku":"B-17","unit price":9.5}]}}]}`, sent, sent)
		postTo(t, url+"/v1/batch", "web-key", body)
		postTo(t, url+"/v1/batch", "web-key", body)
		post(t, url, "web-key", `{"type":"group","messageId":"g1","userId":"grace","groupId":"acme","traits":{"seats":12}}`,
			`{"type":"alias","messageId":"a1","userId":"ken","previousId":"f3b9c2d4"}`, `{"type":"identify","messageId":"i9","userId":"margaret","traits":{"plan":"Pro"},"integrations":{"All":false}}`)
		postTo(t, url+"/v1/batch", "web-key", `{"batch":[`)
	}
}

// TestPicturesOfFailures takes screenshots of the list and of a failed call in both themes and
// three widths.
func TestPicturesOfFailures(t *testing.T) {
	if os.Getenv("SCREENSHOTS") == "" {
		t.Skip("SCREENSHOTS names no folder for them")
	}
	srv, _ := outage(t)
	for n := range 60 {
		post(t, srv.URL, "web-key", track(fmt.Sprint("m", n), fmt.Sprint("user-", n%7), []string{"Product Viewed", "Order Completed", "Coupon Applied"}[n%3],
			`{"orderId":90071992547409931,"total":129.50,"currency":"EUR","items":[{"sku":"B-17","unit price":9.5},{"sku":"C-3","unit price":1.25}]}`))
	}
	b := newTab(t, srv.URL)
	b.forgive("409") // a call is replayed at most once within 10 seconds
	b.open("/")
	b.wait(`document.querySelectorAll('#rows .is-failed').length >= 60`)
	ref := eval[string](b, `document.querySelector('#rows tr').dataset.ref`)
	for _, width := range []int64{1440, 1024, 390} {
		for _, dark := range []bool{false, true} {
			for name, path := range map[string]string{"list": "/", "panel": "/?call=" + ref} {
				b.look(width, 900, dark)
				b.open(path)
				b.shoot(fmt.Sprintf("failures-%s-%d-dark-%t", name, width, dark))
				if name == "list" { // all destinations of a row
					b.press("jj")
					b.shoot(fmt.Sprintf("failures-focus-%d-dark-%t", width, dark))
				} else {
					b.click("#panel .destination:last-of-type form button")
					b.waitText("#toast", " ")
					b.shoot(fmt.Sprintf("failures-replay-%d-dark-%t", width, dark))
				}
			}
		}
	}
}
