package e2e

import (
	"fmt"
	"net/http"
	"os"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/cdproto/runtime"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

const (
	loadRate = 1000 // calls a second
	loadSize = 20   // calls a batch
	// longestTask is for how long the page may not answer, in milliseconds.
	longestTask = 200
)

// loadTime is how long the load lasts: LOAD, or 5 s.
func loadTime(t *testing.T) time.Duration {
	text := os.Getenv("LOAD")
	if text == "" {
		return 5 * time.Second
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err)
	return d
}

// load sends calls at loadRate for d.
func load(t *testing.T, url, run string, d time.Duration) (sent int) {
	tick := time.NewTicker(time.Second * loadSize / loadRate)
	defer tick.Stop()
	client := &http.Client{}
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		var calls []string
		for range loadSize {
			sent++
			calls = append(calls, track(fmt.Sprint(run, sent), fmt.Sprint("user-", sent%97), fmt.Sprint("Event ", sent%13), `{"plan":"Pro","seats":12,"note":"`+strings.Repeat("n", 300)+`"}`))
		}
		req, err := http.NewRequest(http.MethodPost, url+"/v1/batch", strings.NewReader(`{"batch":[`+strings.Join(calls, ",")+`]}`))
		require.NoError(t, err)
		req.SetBasicAuth("load", "")
		res, err := client.Do(req)
		require.NoError(t, err)
		_ = res.Body.Close()
		require.Equal(t, http.StatusOK, res.StatusCode)
	}
	return sent
}

func TestPageStaysResponsiveUnderLoad(t *testing.T) {
	// What else the machine does can hold a page up, never speed it up: the best
	// of a few tries is what the page can do.
	const tries = 3
	for try := 1; ; try++ {
		longest := underLoad(t, loadTime(t))
		if longest <= longestTask {
			return
		}
		if try == tries {
			t.Fatalf("the main thread was blocked for %.0f ms; at most %d ms are right", longest, longestTask)
		}
		t.Logf("try %d: the main thread was blocked for %.0f ms", try, longest)
	}
}

// underLoad opens the page, sends calls, and returns the page's longest task in
// milliseconds.
func underLoad(t *testing.T, d time.Duration) float64 {
	hook := newReceiver(t, http.StatusOK)
	history := mockserver.NewHistory(2000)
	srv, collector := serve(t, mockserver.Config{History: history, Destinations: []mockserver.Destination{to("hook", hook.URL, "s3cret")}}, "")
	post(t, srv.URL, "web", track("first", "ada", "First", `{}`))
	b := newTab(t, srv.URL)
	b.open("/")
	b.run(`window.longest = 0; new PerformanceObserver((list) => {
		for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration)
	}).observe({ type: 'longtask', buffered: true })`)
	load(t, srv.URL, "warm-", time.Second) // what is made once is made now
	pageBefore, serverBefore := b.heap(), heap()

	sent := load(t, srv.URL, "m-", d)
	b.wait(`document.querySelectorAll('#rows tr').length >= 150`)
	b.waitText("#count", "2,000 calls")
	b.shoot("load")
	longest := eval[float64](b, `window.longest`)
	pageAfter, serverAfter := b.heap(), heap()
	counters := command(b, memory.GetDOMCounters, cdp.Empty{})
	t.Logf("%d calls in %v; longest task %.0f ms; page %.1f → %.1f MB, %d nodes; server %.1f → %.1f MB",
		sent, d, longest, pageBefore, pageAfter, counters.Nodes, serverBefore, serverAfter)

	assert.LessOrEqual(t, eval[int](b, `document.querySelectorAll('#rows tr').length`), 201)
	assert.Greater(t, b.count("#rows .gap"), 0, "it says that it leaves calls out")
	assert.Less(t, pageAfter, pageBefore+20, "MB of the page's heap")
	assert.Less(t, counters.Nodes, int64(40_000))
	assert.Less(t, serverAfter, serverBefore+30, "MB of the server's heap")
	// It is still at the head of things: the next call shows.
	post(t, srv.URL, "web", track("last", "ada", "After The Load", `{}`))
	b.waitText("#rows", "After The Load")
	require.NoError(t, collector.Close())
	b.do(navigate("about:blank"))
	return longest
}

// heap returns what this process holds, in MB: server, sender and receiver.
func heap() float64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// heap returns what the page's scripts hold, in MB.
func (b *tab) heap() float64 {
	b.t.Helper()
	command(b, heapprofiler.CollectGarbage, cdp.Empty{})
	return command(b, runtime.GetHeapUsage, cdp.Empty{}).UsedSize / (1 << 20)
}
