package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// mostBlockingBytes limits the compressed files that the first paint of the Calls page waits for.
const mostBlockingBytes = 36_000

// TestFirstPaintNeedsFewFiles opens the Calls page of a long history with an empty cache. It logs
// the time of the first paint, but asserts only its causes, because the time depends on the
// machine.
func TestFirstPaintNeedsFewFiles(t *testing.T) {
	t.Parallel()
	good, gone := newReceiver(t, http.StatusOK), newReceiver(t, http.StatusNotFound)
	srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{to("warehouse", good.URL, "s3cret"), to("hook", gone.URL, "")}}, "")
	const calls, batch = 525, 25
	for n := 0; n < calls; n += batch {
		var bodies []string
		for i := range batch {
			bodies = append(bodies, track(fmt.Sprint("m", n+i), fmt.Sprint("user-", i%7), fmt.Sprint("Event ", i%13), `{"plan":"Pro","total":129.5,"currency":"EUR"}`))
		}
		post(t, srv.URL, "web", bodies...)
	}
	settle(t, collector)
	b := newTab(t, srv.URL)
	command(b, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true})
	type file struct {
		Path  string
		Bytes int
	}
	var paints []float64
	for range 12 {
		b.open("/")
		paints = append(paints, eval[float64](b, `new Promise((done) => new PerformanceObserver((list) => {
			for (const paint of list.getEntriesByName('first-contentful-paint')) done(paint.startTime)
		}).observe({ type: 'paint', buffered: true }))`))
	}
	slices.Sort(paints)
	t.Logf("first contentful paint: median %.0f ms, maximum %.0f ms", paints[len(paints)/2], paints[len(paints)-1])
	files := eval[[]file](b, `performance.getEntries().filter((e) => e.entryType === 'navigation' || e.renderBlockingStatus === 'blocking')
		.map((e) => ({ path: new URL(e.name).pathname.split('/').at(-1), bytes: e.transferSize }))`)
	var names []string
	bytes := 0
	for _, f := range files {
		require.Positive(t, f.Bytes, f.Path)
		names, bytes = append(names, f.Path), bytes+f.Bytes
	}
	t.Log(files)
	assert.ElementsMatch(t, []string{"", "inspector.css", "calls.css", "keys.js"}, names)
	assert.LessOrEqual(t, bytes, mostBlockingBytes)
}
