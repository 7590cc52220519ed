package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

func TestLook(t *testing.T) {
	good, flaky := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusServiceUnavailable)
	srv, err := mockserver.Run(mockserver.Config{Destinations: []mockserver.Destination{
		destination("warehouse", good.URL, "s3cret"),
		destination("crm", flaky.URL, "s3cret"),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = srv.Close() })
	b := newTab(t, srv.URL)
	b.open("/")
	b.shoot("first-light")
	b.dark(true)
	b.shoot("first-dark")
	b.dark(false)
	sent := time.Now().Add(-90 * time.Second).UTC().Format(time.RFC3339Nano)
	for i := range 30 {
		post(t, srv.URL, "web-shop-key",
			track(fmt.Sprintf("t%d", i), "ada", "Order Completed", `{"total": 129.5, "orderId": 12345678901234567890, "items": [{"sku": "B-17", "unit price": 9.5}]}`),
			fmt.Sprintf(`{"type":"identify","userId":"grace","messageId":"i%d","traits":{"plan":"Pro","name":"Grace"}}`, i),
			fmt.Sprintf(`{"type":"page","anonymousId":"f3b9c2d4-77aa","messageId":"p%d","category":"Docs","name":"Getting started","properties":{"path":"/docs"}}`, i))
	}
	postTo(t, srv.URL+"/v1/batch", "ios-app-key", `{"sentAt":"`+sent+`","batch":[{"type":"track","event":"Signed Up","userId":"linus","messageId":"m-clock","timestamp":"`+sent+`","integrations":{"All":false}},
		{"type":"track","userId":"linus","properties":{"a":1}},{"type":"group","userId":"u1","groupId":"acme","messageId":"g1","traits":{"name":"Acme"}},{"type":"alias","userId":"u1","previousId":"anon-4","messageId":"a1"}]}`)
	postTo(t, srv.URL+"/v1/batch", "ios-app-key", `{"batch":[{"type":"track","event":"Signed Up","userId":"linus","messageId":"m-clock"}]}`)
	postTo(t, srv.URL+"/v1/batch", "ios-app-key", `{"batch":[`)
	b.wait(`document.querySelectorAll('#rows .row').length > 20`)
	time.Sleep(1500 * time.Millisecond)
	b.shoot("list-light")
	b.dark(true)
	b.shoot("list-dark")
	b.dark(false)
	b.click(`#rows .row:nth-child(9) a`)
	b.wait(`document.querySelector('#panel h2') !== null`)
	b.shoot("detail-light")
	b.run(`document.querySelectorAll('#panel details').forEach(d => d.open = true)`)
	b.shoot("detail-open")
	b.dark(true)
	b.shoot("detail-dark")
	b.dark(false)
	b.open("/?status=rejected")
	b.click(`#rows .row:nth-child(2) a`)
	b.wait(`document.querySelector('#panel h2') !== null`)
	b.shoot("rejected")
	for _, p := range []string{"/destinations", "/destinations/new", "/destination?name=crm", "/signatures", "/replay"} {
		b.open(p)
		b.shoot("page" + p[1:4] + p[len(p)-3:] + "-light")
		b.dark(true)
		b.shoot("page" + p[1:4] + p[len(p)-3:] + "-dark")
		b.dark(false)
	}
	b.size(390, 800)
	b.open("/")
	b.shoot("narrow-list")
	b.click(`#rows .row:nth-child(9) a`)
	b.wait(`document.querySelector('#panel h2') !== null`)
	b.shoot("narrow-detail")
	b.open("/destination?name=crm")
	b.shoot("narrow-dest")
}
