package e2e

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// TestBrowserLibrary sends calls from a page of another site with an unmodified client
// library: single requests, batches, and beacons, which have no headers.
func TestBrowserLibrary(t *testing.T) {
	t.Parallel()
	const key = "key-of-the-shop"
	library := npmFile(t, "@rudderstack/analytics-js/dist/npm/modern/bundled/umd/index.js")
	pages := http.NewServeMux()
	pages.HandleFunc("/library.js", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, library) })
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>Cart</title><link rel=icon href="data:,"><script src="/library.js"></script>`)
	})
	shop := httptest.NewServer(pages)
	t.Cleanup(shop.Close)
	for way, options := range map[string]string{
		"requests": `{}`,
		"batches":  `{queueOptions: {batch: {enabled: true, maxItems: 5}}}`,
		"beacons":  `{useBeacon: true, beaconQueueOptions: {maxItems: 5}}`,
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			srv, collector := serve(t, engine.Config{Strict: true, Sources: []tracking.Source{{Name: "shop", WriteKey: key}}}, "")
			b := newTab(t, shop.URL)
			b.do(navigate(shop.URL + "/"))
			b.run(`
				const config = { source: {
					id: 's', name: 'shop', writeKey: ` + quote(key) + `, enabled: true, workspaceId: 'w', destinations: [], connections: [], dataplanes: {},
					config: { statsCollection: { errors: { enabled: false }, metrics: { enabled: false } } } } };
				const analytics = new rudderanalytics.RudderAnalytics();
				analytics.load(` + quote(key) + `, ` + quote(srv.URL) + `, { getSourceConfig: () => config, logLevel: 'ERROR', ...` + options + ` });
				analytics.identify('u1', { email: 'ada@example.com', age: 36 });
				analytics.track('Order Completed', { price: 19.99, note: 'ünïcødé' });
				analytics.page('Shop', 'Cart');
				analytics.group('g1', { name: 'Acme' });
				analytics.alias('u1', 'a1'); undefined`)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var records []tracking.Record
			for len(records) < 5 {
				changed := collector.History().Changed()
				if records = collector.History().Records(nil); len(records) >= 5 {
					break
				}
				select {
				case <-changed:
				case <-ctx.Done():
					t.Fatalf("%d of 5 calls came; refused: %+v", len(records), collector.History().Refusals())
				}
			}
			types := map[string]bool{}
			for _, r := range records {
				types[r.Call.Type] = true
				assert.Equal(t, "shop", r.Call.Source)
				assert.NotContains(t, string(r.Call.Body), key)
			}
			assert.Len(t, types, 5)
			require.Empty(t, collector.History().Refusals())
		})
	}
}
