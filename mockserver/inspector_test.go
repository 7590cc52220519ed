package mockserver_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// get requests a page and returns the response and its body.
func get(t *testing.T, url string, header ...string) (*http.Response, string) {
	t.Helper()
	return request(t, newBrowser(t), http.MethodGet, url, nil, header...)
}

// submit posts a form.
func submit(t *testing.T, url string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	return request(t, newBrowser(t), http.MethodPost, url, form, header...)
}

// newBrowser returns a client with a cookie jar.
func newBrowser(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &http.Client{Jar: jar}
}

// request sends a request. header contains alternating names and values.
func request(t *testing.T, client *http.Client, method, url string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	return exchange(t, client, req)
}

// newPages returns a collector's inspector and its guard.
func newPages(t *testing.T, c *engine.Collector, config access.GuardConfig) (*inspector.Inspector, *access.Guard) {
	t.Helper()
	guard, err := access.NewGuard(config)
	require.NoError(t, err)
	return inspector.New(c, inspector.Config{Guard: guard}), guard
}

// find returns the first group of a pattern's first match.
func find(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	require.NotNil(t, found, "%s is not in %s", pattern, text)
	return found[1]
}

// A frame is one event of an event stream.
type frame struct {
	Reset bool
	Rows  []struct {
		Order int64
		HTML  string
	}
	Missing, Gone    []int64
	Arrived, Skipped int64
	Counts           *counts
	Call             bool
	Seconds          [][]int64
	id               string
}

type counts struct{ HTML string }

// A stream reads the frames of a page's event stream.
type stream struct {
	t      *testing.T
	body   io.ReadCloser
	lines  *bufio.Scanner
	status int
	counts counts // the most recent counts
}

func openStream(t *testing.T, url string, header ...string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { res.Body.Close() })
	s := &stream{t: t, body: res.Body, lines: bufio.NewScanner(res.Body), status: res.StatusCode}
	s.lines.Buffer(nil, 16<<20)
	return s
}

// next returns the next frame; ok is false at the end of the stream.
func (s *stream) next() (f frame, ok bool) {
	for s.lines.Scan() {
		line := s.lines.Text()
		switch {
		case strings.HasPrefix(line, "id: "):
			f.id = line[4:]
		case strings.HasPrefix(line, "data: "):
			require.NoError(s.t, json.Unmarshal([]byte(line[6:]), &f))
			if f.Counts != nil {
				s.counts = *f.Counts
			}
		case line == "" && f.id != "":
			return f, true
		}
	}
	return f, false
}

// until reads frames until good reports true.
func (s *stream) until(good func(frame) bool) frame {
	s.t.Helper()
	for {
		f, ok := s.next()
		require.True(s.t, ok, "the stream has ended")
		if good(f) {
			return f
		}
	}
}

func (f frame) html() string {
	var all strings.Builder
	for _, r := range f.Rows {
		all.WriteString(r.HTML)
	}
	return all.String()
}

func shows(part string) func(frame) bool {
	return func(f frame) bool { return strings.Contains(f.html(), part) }
}

// position returns the position of a page's list in the event stream.
func position(t *testing.T, srv *mockserver.Server) string {
	_, body := get(t, srv.URL+"/")
	return find(t, body, `data-from="([^"]+)"`)
}

func TestInspectorServesOnlyItsPages(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u","messageId":"m"}`)
	_, err := srv.Wait(within(t), 1, mockserver.DeliveredTo("hook"))
	require.NoError(t, err)
	_, list := get(t, srv.URL+"/")
	ref := find(t, list, `data-ref="([^"]+)"`)
	for path, status := range map[string]int{
		"/": 200, "/?text=%FF&call=nonsense": 200, "/?before=2": 200, "/replay": 200, "/destinations": 200, "/destinations/new": 200, "/destination?name=hook": 200,
		"/audiences": 200, "/deletions": 200, "/deletion?id=none": 404,
		"/destination?name=none": 404, "/signatures": 200, "/signatures?call=" + ref: 200, "/signatures?call=none&destination=none": 200,
		"/calls/" + ref: 200, "/calls/" + ref + "/body": 200, "/login": 200,
	} {
		res, body := get(t, srv.URL+path)
		assert.Equal(t, status, res.StatusCode, "%s: %s", path, body)
		policy := res.Header.Get("Content-Security-Policy")
		assert.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'", path)
		assert.NotContains(t, policy, "unsafe", path)
		assert.Equal(t, "nosniff", res.Header.Get("X-Content-Type-Options"), path)
		if strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			assert.NotRegexp(t, `(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|https?://[^"]*\.(js|css)`, body, path)
		}
	}
	res, body := get(t, srv.URL+"/nothing/here")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	assert.JSONEq(t, `"not_found"`, find(t, body, `"code":\s*("[^"]*")`), "the tracking API answers for all else")
}

// TestAssetsNeverChange follows the references between pages and assets.
func TestAssetsNeverChange(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	reference := regexp.MustCompile(`(?:href="|src="|url\("|import '|import\('|from ')([\w./]+\.(?:js|css|svg))['"]`)
	seen := map[string]bool{}
	var follow func(from string)
	follow = func(from string) {
		_, body := get(t, srv.URL+from)
		for _, found := range reference.FindAllStringSubmatch(body, -1) {
			name := found[1]
			if !strings.HasPrefix(name, "/") {
				name = path.Join(path.Dir(from), name)
			}
			if seen[name] {
				continue
			}
			seen[name] = true
			res, _ := get(t, srv.URL+name)
			assert.Equal(t, http.StatusOK, res.StatusCode, "%s in %s", name, from)
			assert.Equal(t, "public, max-age=31536000, immutable", res.Header.Get("Cache-Control"), name)
			assert.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'", name)
			follow(name)
		}
	}
	for _, page := range []string{"/", "/events", "/user", "/problems"} {
		follow(page)
	}
	assert.Greater(t, len(seen), 15)
	for name := range seen {
		directory := strings.TrimPrefix(path.Dir(name), "/assets/")
		assert.Regexp(t, `^[0-9a-f]{16}$`, directory, "%s is named after its content", name)
		res, _ := get(t, srv.URL+strings.Replace(name, directory, "0", 1))
		assert.Equal(t, http.StatusOK, res.StatusCode, "the page may be from another version")
		assert.Equal(t, "no-store", res.Header.Get("Cache-Control"), name)
	}
	res, _ := get(t, srv.URL+"/assets/0/none.js")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
}

func TestPagesAreCompressed(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	calls := make([]string, 200)
	for i := range calls {
		calls[i] = fmt.Sprintf(`{"type":"track","event":"Order Completed","userId":"user-%d","messageId":"m%[1]d"}`, i)
	}
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[`+strings.Join(calls, ",")+`]}`)
	_, page := get(t, srv.URL+"/")
	for path, most := range map[string]int{
		"/": 20_000, "/events": 4_000, find(t, page, `href="(/assets/[^"]+\.css)"`): 10_000, "/api/v1/calls?limit=200": 10_000, "/api/v1/openapi.yaml": 40_000,
	} {
		_, plain := get(t, srv.URL+path, "Accept-Encoding", "br, gzip;q=0")
		res, packed := get(t, srv.URL+path, "Accept-Encoding", "br, gzip")
		assert.Equal(t, "gzip", res.Header.Get("Content-Encoding"), path)
		assert.Equal(t, strconv.Itoa(len(packed)), res.Header.Get("Content-Length"), path)
		assert.Contains(t, res.Header.Values("Vary"), "Accept-Encoding", path)
		assert.Less(t, len(packed), most, path)
		reader, err := gzip.NewReader(strings.NewReader(packed))
		require.NoError(t, err, path)
		unpacked, err := io.ReadAll(reader)
		require.NoError(t, err, path)
		assert.InDelta(t, len(plain), len(unpacked), 2000, "%s: only ages and the chart may differ", path)
		assert.Equal(t, plain[:200], string(unpacked[:200]), path)
		t.Logf("%s: %d bytes, compressed %d", path, len(plain), len(packed))
	}
	for _, path := range []string{"/api/v1/health", "/api/v1/nothing"} {
		res, _ := get(t, srv.URL+path, "Accept-Encoding", "gzip")
		assert.Empty(t, res.Header.Get("Content-Encoding"), "%s is too small", path)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/stream", nil)
	require.NoError(t, err)
	req.Header.Set("Accept-Encoding", "gzip")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	assert.Empty(t, res.Header.Get("Content-Encoding"), "the browser receives each frame immediately")
	first := make([]byte, len("id: "))
	_, err = io.ReadFull(res.Body, first)
	require.NoError(t, err)
	assert.Equal(t, "id: ", string(first))
}

func TestStreamSendsNewAndChangedCalls(t *testing.T) {
	var hold sync.WaitGroup
	hold.Add(1)
	rec := newReceiver(t, func(int, http.ResponseWriter, *http.Request) { hold.Wait() })
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	s := openStream(t, srv.URL+"/stream?from="+position(t, srv))
	first, _ := s.next()
	assert.False(t, first.Reset)
	assert.Empty(t, first.Rows)

	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"track","event":"One","userId":"u","messageId":"m1"},{"type":"track","userId":"u"}]}`)
	arrived := s.until(func(f frame) bool { return len(f.Rows) > 0 })
	for arrived.Arrived < 2 { // the calls may arrive in two frames
		more := s.until(func(f frame) bool { return f.Arrived > 0 })
		arrived.Rows, arrived.Arrived = append(arrived.Rows, more.Rows...), arrived.Arrived+more.Arrived
	}
	assert.Contains(t, arrived.html(), "One")
	assert.Contains(t, arrived.html(), "event_not_defined")
	assert.Contains(t, arrived.html(), "is-pending")
	assert.NotEmpty(t, arrived.Seconds, "what the chart shows")
	hold.Done()
	changed := s.until(shows("is-delivered"))
	assert.Len(t, changed.Rows, 1)
	assert.Zero(t, changed.Arrived, "it was there before")

	srv.Clear()
	s.until(func(f frame) bool { return f.Reset })
	post(t, srv.URL+"/v1/track", "key", `{"event":"Two","userId":"u"}`)
	s.until(shows("Two"))
}

func TestStreamResumesFromItsPosition(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/track", "key", `{"event":"Before","userId":"u"}`)
	at := position(t, srv)
	post(t, srv.URL+"/v1/track", "key", `{"event":"Meanwhile","userId":"u"}`)
	for name, s := range map[string]*stream{
		"from":          openStream(t, srv.URL+"/stream?from="+at),
		"Last-Event-ID": openStream(t, srv.URL+"/stream?from=nonsense", "Last-Event-ID", at),
	} {
		f, _ := s.next()
		assert.False(t, f.Reset, name)
		assert.Contains(t, f.html(), "Meanwhile", name)
		assert.NotContains(t, f.html(), "Before", name)
		assert.EqualValues(t, 1, f.Arrived, name)
	}
	for _, at := range []string{"", "nonsense", "other.1.1", at + "9", strings.Split(at, ".")[0] + ".-1.-1"} {
		f, _ := openStream(t, srv.URL+"/stream?from="+at).next()
		assert.True(t, f.Reset, at)
	}
}

func TestStreamFilters(t *testing.T) {
	var down sync.Map
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if _, is := down.Load("down"); is {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	down.Store("down", true)
	failed := openStream(t, srv.URL+"/stream?status=failed&from="+position(t, srv))
	pages := openStream(t, srv.URL+"/stream?type=page&from="+position(t, srv))
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"track","event":"Gone","userId":"u","messageId":"m1"},{"type":"page","name":"Docs","userId":"u"}]}`)
	shown := ""
	f := failed.until(func(f frame) bool { // both calls failed, in any order
		shown += f.html()
		return strings.Contains(shown, "Gone") && strings.Contains(shown, "Docs")
	})
	page := pages.until(shows("Docs"))
	assert.NotContains(t, page.html(), ">Gone<")
	for !strings.Contains(pages.counts.HTML, "of 2 calls") {
		_, _ = pages.next()
	}
	assert.Contains(t, pages.counts.HTML, "<b>1</b> of 2 calls matches")

	// A call that no longer matches the filter is removed.
	down.Delete("down")
	n, err := srv.Engine().Replay(t.Context(), "hook", engine.Selection{})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	gone := map[int64]bool{}
	for len(gone) < 2 {
		for _, order := range failed.until(func(f frame) bool { return len(f.Gone) > 0 }).Gone {
			gone[order] = true
		}
	}
	assert.True(t, gone[f.Rows[0].Order])
}

// TestHeldStreamSendsListedRows follows a list that adds no rows.
func TestHeldStreamSendsListedRows(t *testing.T) {
	var hold sync.WaitGroup
	hold.Add(1)
	rec := newReceiver(t, func(int, http.ResponseWriter, *http.Request) { hold.Wait() })
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	post(t, srv.URL+"/v1/track", "key", `{"event":"Listed","userId":"u"}`)
	_, body := get(t, srv.URL+"/?status=pending")
	listed, at := find(t, body, `data-order="(\d+)"`), find(t, body, `data-from="([^"]+)"`)
	s := openStream(t, srv.URL+"/stream?status=pending&held=yes&rows="+listed+"&from="+at)
	post(t, srv.URL+"/v1/track", "key", `{"event":"Other","userId":"u"}`)
	missing := s.until(func(f frame) bool { return len(f.Missing) > 0 })
	assert.Len(t, missing.Missing, 1)
	assert.Empty(t, missing.Rows)
	assert.EqualValues(t, 1, missing.Arrived)
	assert.Zero(t, missing.Skipped)
	hold.Done()
	gone := s.until(func(f frame) bool { return len(f.Gone) > 0 })
	require.Len(t, gone.Rows, 1)
	assert.Equal(t, gone.Gone[0], gone.Rows[0].Order)
	assert.Contains(t, gone.html(), "is-delivered", "a row that no longer matches is current")
}

func TestSlowBrowserReceivesTheMissedCount(t *testing.T) {
	srv := mockserver.RunT(t)
	s := openStream(t, srv.URL+"/stream?from="+position(t, srv))
	_, _ = s.next()
	const sent = 3000
	for i := range sent / 1000 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 1000))
	}
	var arrived, skipped, rows int64
	for arrived < sent {
		f := s.until(func(f frame) bool { return f.Arrived > 0 })
		arrived, skipped, rows = arrived+f.Arrived, skipped+f.Skipped, rows+int64(len(f.Rows))
		assert.LessOrEqual(t, len(f.Rows), 240, "a frame is bounded")
	}
	assert.EqualValues(t, sent, arrived)
	assert.Positive(t, skipped)
	assert.Equal(t, arrived, skipped+rows)
}

// TestStreamCountsOnlyMatchingCalls opens streams at a position that is more changes behind than a frame
// examines, as a page does after it was hidden.
func TestStreamCountsOnlyMatchingCalls(t *testing.T) {
	srv := mockserver.RunT(t)
	from := position(t, srv)
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"ada"}`)
	for i := range 3 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 1000))
	}
	for search, want := range map[string]int64{"user:ada": 1, "user:nobody": 0, "": 3001} {
		f, _ := openStream(t, srv.URL+"/stream?from="+from+"&q="+search).next()
		assert.Equal(t, want, f.Arrived, search)
		assert.Equal(t, want, f.Skipped+int64(len(f.Rows)), search)
		f, _ = openStream(t, srv.URL+"/stream?held=yes&from="+from+"&q="+search).next()
		slices.Sort(f.Missing)
		assert.Len(t, slices.Compact(f.Missing), int(want), "a held list counts each call once: "+search)
		assert.Equal(t, want, f.Arrived, search)
		assert.Zero(t, f.Skipped, search)
	}
}

func TestFrameOfAFrozenListIsBounded(t *testing.T) {
	srv := mockserver.RunT(t)
	from := position(t, srv)
	for i := range 11 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 1000))
	}
	f, _ := openStream(t, srv.URL+"/stream?held=yes&from="+from).next()
	assert.Len(t, f.Missing, 10_000)
	assert.EqualValues(t, 11_000, f.Arrived)
}

func TestStreamsAreLimitedAndEnd(t *testing.T) {
	inspector, _ := newPages(t, newCollector(t, engine.Config{}), access.GuardConfig{Loopback: true})
	srv := httptest.NewServer(inspector)
	defer srv.Close()
	var open []*stream
	for {
		s := openStream(t, srv.URL+"/stream")
		if s.status != http.StatusOK {
			assert.Equal(t, http.StatusServiceUnavailable, s.status)
			break
		}
		open = append(open, s)
		require.Less(t, len(open), 1000)
	}
	require.NoError(t, open[0].body.Close())
	require.Eventually(t, func() bool { return openStream(t, srv.URL+"/stream").status == http.StatusOK }, time.Minute, 10*time.Millisecond)
	inspector.Close()
	inspector.Close()
	for _, s := range open[1:] {
		for {
			if _, more := s.next(); !more {
				break
			}
		}
	}
}

func TestListPagesAndCounts(t *testing.T) {
	srv := mockserver.RunT(t)
	for i := range 5 {
		post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprint(i), 100))
	}
	seen := map[string]bool{}
	path := "/?type=track"
	for pages := 1; ; pages++ {
		_, body := get(t, srv.URL+path)
		assert.Contains(t, body, `<b>500</b> of 500 calls match`)
		for _, ref := range regexp.MustCompile(`data-ref="([^"]+)"`).FindAllStringSubmatch(body, -1) {
			assert.False(t, seen[ref[1]], "shown twice")
			seen[ref[1]] = true
		}
		older := regexp.MustCompile(`href="(/[^"]*before=[^"]*)">Older`).FindStringSubmatch(body)
		if older == nil {
			assert.Equal(t, 3, pages)
			break
		}
		path = strings.ReplaceAll(older[1], "&amp;", "&")
	}
	assert.Len(t, seen, 500)
	_, body := get(t, srv.URL+"/?text=M-3-7&event=TEST&user=u")
	assert.Regexp(t, `<b>0</b> of 500 calls match.* 500 hidden by search`, body)
	_, body = get(t, srv.URL+"/?text=%223-7%22")
	assert.Regexp(t, `<b>1</b> of 500 calls matches.* 499 hidden by search`, body)
}

func TestReplayOfAFilterReplaysTheCountedCalls(t *testing.T) {
	var mu sync.Mutex
	status := http.StatusNotFound
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status)
	})
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL), hook("other", rec.URL)}})
	ended := func(n int, destination string, state tracking.State) {
		_, err := srv.Wait(within(t), n, func(r *tracking.Record) bool {
			o, ok := r.State(destination)
			return ok && o.State == state
		})
		require.NoError(t, err)
	}
	post(t, srv.URL+"/v1/batch", "key", track("a", 7))
	post(t, srv.URL+"/v1/track", "key", `{"event":"Other","userId":"u","messageId":"x"}`)
	ended(8, "hook", tracking.StateFailed)
	ended(8, "other", tracking.StateFailed)
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()

	_, page := get(t, srv.URL+"/replay?event=tested")
	assert.Contains(t, page, "7 calls match <code><bdi>event:tested</bdi></code>.")
	assert.Equal(t, 2, strings.Count(page, `data-calls="7"`))
	upTo := find(t, page, `name="upTo" value="(\d+)"`)
	renderedAt := html.UnescapeString(find(t, page, `name="renderedAt" value="([^"]+)"`))
	post(t, srv.URL+"/v1/batch", "key", track("later", 1)) // arrives after the page counted the calls to replay
	browser := newBrowser(t)
	res, page := request(t, browser, http.MethodPost, srv.URL+"/replay", url.Values{"event": {"tested"}, "upTo": {upTo}, "renderedAt": {renderedAt}, "pick": {"failed:hook"}})
	assert.Equal(t, "/?q=event%3Atested", res.Request.URL.RequestURI())
	assert.Contains(t, page, "Replaying 7 calls.")
	ended(8, "hook", tracking.StateDelivered)
	ended(8, "other", tracking.StateFailed)
	_, page = request(t, browser, http.MethodPost, srv.URL+"/replay", url.Values{"event": {"tested"}, "upTo": {upTo}, "renderedAt": {renderedAt}, "pick": {"failed:hook"}})
	assert.Contains(t, page, "Replaying 0 calls.", "they did not fail any more")
	_, page = request(t, browser, http.MethodGet, srv.URL+"/", nil)
	assert.NotContains(t, page, "Replaying", "it is said once")
	_, page = get(t, srv.URL+"/?notice=0+calls+are+being+replayed.")
	assert.NotContains(t, page, "Replaying", "no link makes one up")

	// The form replays all failed calls of a destination.
	_, page = get(t, srv.URL+"/destination?name=other")
	assert.Contains(t, page, "responded with 404 (Not Found)")
	_, page = get(t, srv.URL+"/replay?destination=other")
	assert.Contains(t, page, `data-calls="8"`)
	res, _ = request(t, browser, http.MethodPost, srv.URL+"/replay", url.Values{"destination": {"other"}, "upTo": {"0"}, "renderedAt": {find(t, page, `name="renderedAt" value="([^"]+)"`)}, "pick": {"failed:other"}})
	assert.Equal(t, "/destination?name=other", res.Request.URL.RequestURI())
	ended(9, "other", tracking.StateDelivered)
	for _, form := range []url.Values{
		{"upTo": {"x"}, "renderedAt": {renderedAt}},
		{"upTo": {"1"}, "pick": {"failed:hook"}},
		{"upTo": {"1"}, "renderedAt": {renderedAt}, "pick": {"pending:hook"}},
		{"upTo": {"1"}, "renderedAt": {renderedAt}, "pick": {"nonsense"}},
	} {
		res, _ := submit(t, srv.URL+"/replay", form)
		assert.Equal(t, http.StatusBadRequest, res.StatusCode, form)
	}
}

func TestInspectorLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const token = "the-admin-token"
		inspector, guard := newPages(t, newCollector(t, engine.Config{}), access.GuardConfig{Token: token, Hosts: []string{"collector.example"}})
		const page = "http://localhost"
		browser := newBrowser(t)
		browser.Transport = mockserver.NewTransport(inspector)
		browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		do := func(method, path string, form url.Values, header ...string) (*http.Response, string) {
			return request(t, browser, method, page+path, form, header...)
		}

		res, _ := do("GET", "/destination?name=a", nil)
		assert.Equal(t, "/login?to=%2Fdestination%3Fname%3Da", res.Header.Get("Location"))
		for _, path := range []string{"/stream", "/calls/x"} {
			res, _ = do("GET", path, nil, "X-Fragment", "1")
			assert.Equal(t, http.StatusUnauthorized, res.StatusCode, path)
		}
		res, _ = do("POST", "/destinations/pause", url.Values{"name": {"a"}})
		assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
		res, _ = do("GET", "/", nil, "Authorization", "Bearer "+token)
		assert.Equal(t, http.StatusOK, res.StatusCode, "programs may come in too")

		res, body := do("POST", "/login", url.Values{"token": {"wrong"}})
		assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
		assert.Contains(t, body, "Invalid token.")
		assert.Empty(t, res.Cookies())
		res, _ = do("POST", "/login", url.Values{"token": {token}, "to": {"/destinations"}}, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		assert.Equal(t, http.StatusForbidden, res.StatusCode)
		res, _ = do("POST", "/login", url.Values{"token": {token}, "to": {"/destinations"}})
		assert.Equal(t, "/destinations", res.Header.Get("Location"))
		require.Len(t, res.Cookies(), 1)
		cookie := res.Cookies()[0]
		assert.True(t, cookie.HttpOnly)
		assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
		assert.NotContains(t, cookie.Value, token)
		res, _ = do("GET", "/", nil)
		assert.Equal(t, http.StatusOK, res.StatusCode)
		res, body = do("POST", "/destinations/pause", url.Values{"name": {"a"}}, "Sec-Fetch-Site", "cross-site")
		assert.Equal(t, http.StatusForbidden, res.StatusCode, "another site's form")
		assert.Contains(t, body, "Cross-origin request; only pages of this server and programs may send it.")
		res, _ = do("GET", "/", nil, "Host", "rebound.example")
		assert.Equal(t, http.StatusMisdirectedRequest, res.StatusCode)
		res, _ = do("GET", "/", nil, "Host", "collector.example")
		assert.NotEqual(t, http.StatusMisdirectedRequest, res.StatusCode)

		plain := &http.Client{Transport: browser.Transport, CheckRedirect: browser.CheckRedirect}
		for name, value := range map[string]string{
			"as it is": cookie.Value, "longer": "9" + cookie.Value, "cut": cookie.Value[:len(cookie.Value)-1], "of nothing": "", "unsigned": strings.Split(cookie.Value, ".")[0] + ".",
		} {
			res, _ := request(t, plain, "GET", page+"/", nil, "Cookie", cookie.Name+"="+value)
			assert.Equal(t, name == "as it is", res.StatusCode == http.StatusOK, name)
		}
		time.Sleep(12*time.Hour + time.Second)
		res, _ = request(t, plain, "GET", page+"/", nil, "Cookie", cookie.Name+"="+cookie.Value)
		assert.Equal(t, http.StatusSeeOther, res.StatusCode, "it has run out")
		_, _ = do("POST", "/login", url.Values{"token": {token}})
		require.NoError(t, guard.Configure(access.GuardConfig{Token: "another-token"}))
		res, _ = do("GET", "/", nil)
		assert.Equal(t, http.StatusSeeOther, res.StatusCode, "the token was changed")
		_, _ = do("POST", "/login", url.Values{"token": {"another-token"}})
		res, _ = do("POST", "/logout", nil)
		assert.Equal(t, "/login", res.Header.Get("Location"))
		res, _ = do("GET", "/", nil)
		assert.Equal(t, http.StatusSeeOther, res.StatusCode)

		for _, to := range []string{"https://evil.example", "//evil.example", `/\evil.example`, "evil", "javascript:alert(1)", "/ok\x00"} {
			res, _ := do("POST", "/login", url.Values{"token": {"another-token"}, "to": {to}})
			assert.Equal(t, "/", res.Header.Get("Location"), to)
		}
	})
}

// Logout makes the session's cookie invalid at every collector that shares the state.
// Other sessions continue.
func TestLogoutEndsTheSessionOnEveryCollector(t *testing.T) {
	state := state.NewMemory()
	var pages [2]http.Handler
	for i := range pages {
		pages[i], _ = newPages(t, newCollector(t, engine.Config{State: state}), access.GuardConfig{Token: "the-admin-token"})
	}
	do := func(page int, method, path, form, cookie string) *http.Response {
		req := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(form))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Cookie", cookie)
		res := httptest.NewRecorder()
		pages[page].ServeHTTP(res, req)
		return res.Result()
	}
	login := func() string {
		cookie := do(0, http.MethodPost, "/login", "token=the-admin-token", "").Cookies()[0]
		return cookie.Name + "=" + cookie.Value
	}
	one, other := login(), login()
	for page := range pages {
		require.Equal(t, http.StatusOK, do(page, http.MethodGet, "/", "", one).StatusCode)
	}
	require.Equal(t, "/login", do(0, http.MethodPost, "/logout", "", one).Header.Get("Location"))
	for page := range pages {
		assert.Equal(t, http.StatusSeeOther, do(page, http.MethodGet, "/", "", one).StatusCode, "collector %d", page)
		assert.Equal(t, http.StatusOK, do(page, http.MethodGet, "/", "", other).StatusCode, "collector %d", page)
	}
}

func TestHiddenHeaderValuesAreNotSentToANewURL(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t)
	require.NoError(t, srv.Engine().AddDestination(t.Context(), tracking.Destination{Name: "d", Settings: webhook.Settings{
		Webhooks: []webhook.Endpoint{{URL: "https://a.example/hook", Headers: map[string]string{"Authorization": "Bearer s3cret"}}}, SharedSecret: "shared",
	}}))
	_, page := get(t, srv.URL+"/destination?name=d")
	assert.Contains(t, page, "Authorization: (hidden)")
	assert.NotContains(t, page, "s3cret")
	form := url.Values{"name": {"d"}, "new": {"false"}, "enabled": {"true"}, "url0": {rec.URL}, "headers0": {"Authorization: (hidden)"}}
	for _, path := range []string{"/destinations/test", "/destinations/save"} {
		_, page = submit(t, srv.URL+path, form)
		assert.Contains(t, page, "&#34;Authorization&#34; is hidden and has no previous value for this URL: enter its value again", path)
	}
	bodies, _ := rec.got()
	assert.Empty(t, bodies)
	form.Set("url0", "https://a.example/hook")
	res, _ := submit(t, srv.URL+"/destinations/save", form)
	assert.Equal(t, http.StatusOK, res.StatusCode)
	d := srv.Engine().Settings().Destinations[0]
	assert.Equal(t, "Bearer s3cret", d.Webhooks[0].Headers["Authorization"])
	assert.Equal(t, "shared", d.SharedSecret)
	form.Set("secretDo", "remove")
	form.Set("traceContext", "all")
	_, _ = submit(t, srv.URL+"/destinations/save", form)
	assert.Equal(t, webhook.TraceAll, srv.Engine().Settings().Destinations[0].TraceContext)
	_, page = get(t, srv.URL+"/destination?name=d")
	assert.Contains(t, page, `<option value="all" selected>`)
	form.Set("traceContext", "some")
	_, page = submit(t, srv.URL+"/destinations/save", form)
	assert.Contains(t, page, `use &#34;parent&#34;, &#34;all&#34; or &#34;none&#34;`)
	assert.Empty(t, srv.Engine().Settings().Destinations[0].SharedSecret)
}

// A failingStore is a journal with an unhealthy store.
type failingStore struct{ journal.Journal }

func (failingStore) Health(context.Context) (journal.Health, error) {
	return journal.Health{
		Replicas: []journal.Replica{{Stream: "CALLS", Server: "c", State: journal.ReplicaNoJetStream}},
		Scrub:    journal.Scrub{Damage: []string{"server <b>: 3 messages"}},
	}, errors.New("the cluster has no leader")
}

func TestDestinationsPageShowsStoreProblems(t *testing.T) {
	srv := mockserver.RunEngine(t, engine.Config{Journal: failingStore{journal.NewMemory(0)}, Destinations: hooks("crm")})
	_, page := get(t, srv.URL+"/destinations", "X-Fragment", "1")
	for _, want := range []string{
		"<li>Cannot store calls: the cluster has no leader</li>", "<li>Corrupted: server &lt;b&gt;: 3 messages</li>",
		"<li>Replica: CALLS on c: JetStream is not running; see the server&#39;s log</li>",
	} {
		assert.Contains(t, page, want)
	}
	_, page = get(t, mockserver.RunT(t).URL+"/destinations")
	assert.NotContains(t, page, "Storage problems")
}

// A watchedJournal calls a function before it removes a destination.
type watchedJournal struct {
	journal.Journal
	beforeDetach func()
}

func (j *watchedJournal) Detach(ctx context.Context, name string) error {
	j.beforeDetach()
	return j.Journal.Detach(ctx, name)
}

func TestDestinationThatIsBeingRemovedIsDisabled(t *testing.T) {
	watched := &watchedJournal{Journal: journal.NewMemory(0)}
	srv := mockserver.RunEngine(t, engine.Config{Journal: watched})
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("crm", "http://127.0.0.1:1")))
	var answer object
	var page string
	watched.beforeDetach = func() {
		_, answer = askAdmin(t, srv, http.MethodGet, "/destinations/crm", "")
		_, page = get(t, srv.URL+"/destination?name=crm")
	}
	require.NoError(t, srv.Engine().RemoveDestination(t.Context(), "crm", true))
	require.Contains(t, answer, "status")
	assert.Equal(t, "disabled", answer["status"].(object)["state"])
	assert.Contains(t, page, ">Disabled</span>")
}

func TestConfiguredDestinationsAreReadOnlyInForms(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("fixed", "https://a.example")}})
	res, _ := submit(t, srv.URL+"/destinations/save", url.Values{"name": {"fixed"}, "new": {"false"}, "url0": {"https://b.example"}})
	assert.Equal(t, http.StatusConflict, res.StatusCode)
	res, _ = submit(t, srv.URL+"/destinations/save", url.Values{"name": {"fixed"}, "new": {"true"}, "url0": {"https://b.example"}})
	assert.Equal(t, http.StatusUnprocessableEntity, res.StatusCode)
	res, _ = submit(t, srv.URL+"/destinations/remove", url.Values{"name": {"fixed"}})
	assert.Equal(t, http.StatusConflict, res.StatusCode)
	assert.Equal(t, "https://a.example", srv.Engine().Settings().Destinations[0].Webhooks[0].URL)
	res, _ = submit(t, srv.URL+"/destinations/pause", url.Values{"name": {"fixed"}})
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.True(t, srv.Engine().Status()[0].Paused)
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u"}`)
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("made", "https://a.example")))
	require.NoError(t, srv.Pause(t.Context(), "made"))
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u"}`)
	res, page := submit(t, srv.URL+"/destinations/remove", url.Values{"name": {"made"}})
	assert.Equal(t, http.StatusConflict, res.StatusCode)
	assert.Contains(t, page, "The destination has pending calls")
	res, _ = submit(t, srv.URL+"/destinations/remove", url.Values{"name": {"made"}, "discard": {"true"}})
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Len(t, srv.Engine().Settings().Destinations, 1)
}

// After an invalid form the browser shows the form's URL, so a GET of it must work.
func TestFormURLsServeAPage(t *testing.T) {
	srv := mockserver.RunT(t)
	require.NoError(t, srv.Engine().AddDestination(t.Context(), hook("a & b", "https://a.example")))
	still := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range map[string]string{
		"/destinations/save": "/destinations", "/destinations/test": "/destinations", "/destinations/remove": "/destinations",
		"/audiences/sync": "/audiences", "/events/forget": "/events", "/calls/some/replay": "/calls/some", "/logout": "/",
		"/replay": "", "/deletions": "", "/signatures": "", "/login": "/",
	} {
		res, page := request(t, still, http.MethodGet, srv.URL+path, nil)
		assert.Equal(t, want, res.Header.Get("Location"), "%s: %s %s", path, res.Status, page)
	}

	_, page := submit(t, srv.URL+"/destinations/save", url.Values{"name": {"a & b"}, "new": {"false"}})
	figures := html.UnescapeString(find(t, page, `data-refresh="(.+?)"`))
	res, part := get(t, srv.URL+figures, "X-Fragment", "1")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Contains(t, part, "Status")
}

func TestInspectorIsConcurrentSafe(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunEngine(t, engine.Config{History: history.New(50), Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	var senders, readers sync.WaitGroup
	ctx := t.Context()
	for n := range 4 {
		senders.Go(func() {
			for i := range 10 {
				post(t, srv.URL+"/v1/batch", "key", track(fmt.Sprintf("%d-%d", n, i), 20))
				post(t, srv.URL+"/v1/batch", "key", `{"batch":[`+strings.Repeat(`{"type":"track","userId":"u"},`, 200)+`{}]}`)
				srv.Clear() // because links to rejected calls contain the feed's name
			}
		})
	}
	stop := make(chan struct{})
	for _, path := range []string{"/", "/?text=tested&status=delivered", "/replay", "/destinations", "/destination?name=hook"} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				default:
					res, _ := get(t, srv.URL+path)
					assert.Equal(t, http.StatusOK, res.StatusCode, path)
				}
			}
		})
	}
	s := openStream(t, srv.URL+"/stream?status=delivered&from="+position(t, srv))
	senders.Wait()
	close(stop)
	readers.Wait()
	srv.Clear()
	s.until(func(f frame) bool { return f.Reset })
}

// When the stream ends, the page reconnects and is redirected to the login page.
func TestStreamEndsWithItsSession(t *testing.T) {
	collector := newCollector(t, engine.Config{})
	inspector, guard := newPages(t, collector, access.GuardConfig{Token: "one-token"})
	srv := httptest.NewServer(inspector)
	t.Cleanup(srv.Close)
	s := openStream(t, srv.URL+"/stream", "Authorization", "Bearer one-token")
	_, ok := s.next()
	require.True(t, ok)
	require.NoError(t, guard.Configure(access.GuardConfig{Token: "another-token"}))
	serve(collector, http.MethodPost, "/v1/batch", track("m", 1))
	for n := 0; ok; n++ {
		_, ok = s.next()
		require.Less(t, n, 3, "at most the frame that was under way")
	}
}

// Numeric IDs become strings and keep all digits. Numeric properties may lose digits, and
// the doctor command reports only those.
func TestNumericIDsKeepTheirDigits(t *testing.T) {
	rec := newReceiver(t, nil)
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("hook", rec.URL)}})
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":90071992547409931,"properties":{"n":90071992547409933}}`)
	srv.Expect(t, mockserver.OfUser("90071992547409931"), mockserver.DeliveredTo("hook"))
	bodies, _ := rec.got()
	assert.Contains(t, bodies[0], `"userId":"90071992547409931"`)
	assert.Contains(t, bodies[0], `"n":90071992547409940`)
	_, list := get(t, srv.URL+"/")
	_, doctor := get(t, srv.URL+"/signatures?destination=hook&call="+find(t, list, `data-ref="([^"]+)"`))
	assert.Contains(t, doctor, "properties.n")
	assert.Equal(t, 1, strings.Count(doctor, "More digits than a double-precision number"))
}

// The login page is public, so it must read little of a request.
func TestLoginReadsLimitedInput(t *testing.T) {
	inspector, _ := newPages(t, newCollector(t, engine.Config{}), access.GuardConfig{Token: "the-admin-token"})
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for contentType, start := range map[string]string{
			"multipart/form-data; boundary=b":   "--b\r\nContent-Disposition: form-data; name=\"to\"; filename=\"f\"\r\n\r\n",
			"application/x-www-form-urlencoded": "to=",
		} {
			var read counted
			req := httptest.NewRequest(method, "http://localhost/login", io.TeeReader(io.MultiReader(strings.NewReader(start), io.LimitReader(letters{}, 12<<20)), &read))
			req.Header.Set("Content-Type", contentType)
			inspector.ServeHTTP(httptest.NewRecorder(), req)
			assert.Less(t, int(read), 2<<20, "%s %s", method, contentType)
		}
	}
}

// letters is an endless stream of the letter a.
type letters struct{}

func (letters) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// counted counts the bytes written to it.
type counted int

func (c *counted) Write(p []byte) (int, error) {
	*c += counted(len(p))
	return len(p), nil
}

func TestWrongAddressOfPageIsNotARejection(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	const accept = "text/html,application/xhtml+xml,*/*;q=0.8"
	for _, path := range []string{"/nothing/here", "/destination/crm", "/favicon.txt"} {
		res, body := get(t, srv.URL+path, "Accept", accept)
		assert.Equal(t, http.StatusNotFound, res.StatusCode, path)
		assert.Equal(t, "text/html; charset=utf-8", res.Header.Get("Content-Type"), path)
		assert.Contains(t, res.Header.Get("Content-Security-Policy"), "default-src 'none'", path)
		assert.Contains(t, body, "Page not found")
		assert.Contains(t, body, `<a class="button" href="/">View calls</a>`)
	}
	res, _ := get(t, srv.URL+"/favicon.ico", "Accept", "image/avif,image/webp,*/*;q=0.8")
	assert.Equal(t, http.StatusOK, res.StatusCode)
	assert.Equal(t, "image/svg+xml", res.Header.Get("Content-Type"))
	_, listed := get(t, srv.URL+"/api/v1/rejections")
	assert.Equal(t, "[]", find(t, listed, `"requests":(.*?\])`))

	// Clients receive JSON, and their requests are listed.
	clients := []struct{ method, path, accept string }{
		{http.MethodPost, "/v1/tracks", accept}, {http.MethodGet, "/v1/tracks", "*/*"}, {http.MethodGet, "/v1/analytics.js", ""},
		{http.MethodGet, "/v1/batch", accept}, // the wrong method for an endpoint
	}
	for _, c := range clients {
		res, body := request(t, newBrowser(t), c.method, srv.URL+c.path, nil, "Accept", c.accept)
		assert.GreaterOrEqual(t, res.StatusCode, http.StatusNotFound, c.path)
		assert.Equal(t, "application/json", res.Header.Get("Content-Type"), "%s: %s", c.path, body)
	}
	_, listed = get(t, srv.URL+"/api/v1/rejections")
	var rejections struct {
		Requests []struct{ Count int }
	}
	require.NoError(t, json.Unmarshal([]byte(listed), &rejections))
	count := 0
	for _, r := range rejections.Requests {
		count += r.Count
	}
	assert.Len(t, clients, count, listed)
}

// TestEmptyListOfRejectionsNamesItsStart checks that no rejections and no retained rejections
// are not confused.
func TestEmptyListOfRejectionsNamesItsStart(t *testing.T) {
	before := time.Now()
	srv := mockserver.RunT(t, mockserver.Config{})
	after := time.Now()
	var rejections struct{ Since time.Time }
	_, body := get(t, srv.URL+"/api/v1/rejections")
	require.NoError(t, json.Unmarshal([]byte(body), &rejections))
	assert.WithinRange(t, rejections.Since, before, after)

	start := `<time datetime="` + rejections.Since.UTC().Format("2006-01-02T15:04:05.000Z") + `"`
	_, list := get(t, srv.URL+"/?q=status:rejected")
	assert.NotContains(t, list, "Send your first call")
	assert.Contains(t, list, "No matching calls.")
	assert.Contains(t, list, "Rejected calls since "+start)
	_, list = get(t, srv.URL+"/?q=status:failed")
	assert.NotContains(t, list, "Rejected calls since")
}

func TestWrongAddressOfPageRequiresLogin(t *testing.T) {
	collector := newCollector(t, engine.Config{})
	inspector, _ := newPages(t, collector, access.GuardConfig{Token: "the-admin-token"})
	req := httptest.NewRequest(http.MethodGet, "http://localhost/nothing?x=1", nil)
	req.Header.Set("Accept", "text/html")
	res := httptest.NewRecorder()
	inspector.Wrap(collector).ServeHTTP(res, req)
	assert.Equal(t, http.StatusSeeOther, res.Code)
	assert.Equal(t, "/login?to=%2Fnothing%3Fx%3D1", res.Header().Get("Location"))
}

// TestScriptsReceiveErrorsWithoutTheLayout requests fragments that do not exist.
func TestScriptsReceiveErrorsWithoutTheLayout(t *testing.T) {
	srv := mockserver.RunT(t)
	res, body := get(t, srv.URL+"/destination?name=none", "X-Fragment", "1")
	assert.Equal(t, http.StatusNotFound, res.StatusCode)
	assert.Contains(t, body, "<h1>Destination not found</h1>")
	assert.NotContains(t, body, "<html")
}

func TestFormTooLarge(t *testing.T) {
	srv := mockserver.RunT(t)
	res, body := submit(t, srv.URL+"/deletions", url.Values{"users": {strings.Repeat("u", 1<<20)}})
	assert.Equal(t, http.StatusRequestEntityTooLarge, res.StatusCode)
	assert.Contains(t, body, "<p>The form is larger than 1 MB; go back and shorten it.</p>")
	res, body = submit(t, srv.URL+"/deletions?%zz", nil)
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	assert.Contains(t, body, "<p>The form cannot be read: ")
}

// TestEmptyListsAreLive checks that the parts of pages that scripts reload contain the note about an
// empty list. Otherwise the note would stay after the first item appears.
func TestEmptyListsAreLive(t *testing.T) {
	srv := mockserver.RunT(t)
	for path, note := range map[string]string{
		"/destinations": "No destinations yet", "/events": "No events yet", "/audiences": "No audiences yet", "/deletions": "No deletion requests yet",
		"/user": "No users yet", "/sources": "No sources yet", "/plans": "No accepted call violates a plan", "/problems": "No problems",
	} {
		_, page := get(t, srv.URL+path)
		assert.Equal(t, 1, strings.Count(page, note), path)
		assert.Equal(t, path == "/events", strings.Contains(page, "event-filter"), "the form does not need a reload after the first event: "+path)
		_, part := get(t, srv.URL+path, "X-Fragment", "1")
		assert.Contains(t, part, note, path)
	}
}

func TestSignaturesListAcceptedCalls(t *testing.T) {
	rec := newReceiver(t, nil)
	d := hook("hook", rec.URL)
	d.SharedSecret = "s3cret"
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{d}})
	post(t, srv.URL+"/v1/track", "key", `{"event":"Accepted","userId":"u","messageId":"m"}`)
	for range 10 {
		post(t, srv.URL+"/v1/track", "key", `{"userId":"u"}`)
	}
	_, page := get(t, srv.URL+"/signatures")
	assert.Contains(t, page, "<bdi>Accepted</bdi>")

	// A pasted body is checked even if the selected call has expired.
	const body = `{"pasted":true}`
	_, page = submit(t, srv.URL+"/signatures", url.Values{"call": {"gone"}, "destination": {"hook"}, "body": {body}, "signature": {webhook.Sign("s3cret", []byte(body))}})
	assert.Contains(t, page, "This call has expired")
	assert.Contains(t, page, "The signature is valid for the pasted body")
}

// TestOnlyWebhooksHaveSignatures opens a call that was sent to a webhook and to a relay.
func TestOnlyWebhooksHaveSignatures(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{
		Destinations: []tracking.Destination{hook("hook", "http://hook"), {Name: "relay", Settings: webhook.Settings{Type: webhook.TypeRelay, Endpoint: "http://relay", WriteKey: "key"}}},
		Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))},
	})
	post(t, srv.URL+"/v1/track", "key", `{"event":"E","userId":"u"}`)
	delivered(t, srv, "hook", 1)
	delivered(t, srv, "relay", 1)
	_, list := get(t, srv.URL+"/")
	_, panel := get(t, srv.URL+"/calls/"+find(t, list, `data-ref="([^"]+)"`), "X-Fragment", "1")
	assert.Contains(t, panel, "&amp;destination=hook\">Signature")
	assert.NotContains(t, panel, "destination=relay\">Signature")
}

func TestFailedCallsLinkToTheirDestination(t *testing.T) {
	rec := newReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("my hook", rec.URL), hook("other", rec.URL)}})
	post(t, srv.URL+"/v1/batch", "key", track("m", 10))
	_, err := srv.Wait(within(t), 10, func(r *tracking.Record) bool {
		o, ok := r.State("my hook")
		return ok && o.State == tracking.StateFailed
	})
	require.NoError(t, err)
	_, page := get(t, srv.URL+"/destination?name=my+hook")
	link := html.UnescapeString(find(t, page, `href="([^"]+)">View recent failed calls`))
	assert.Equal(t, `/?q=destination%3A%3D%22my+hook%22+status%3Afailed`, link)
	_, page = get(t, srv.URL+link)
	assert.Contains(t, page, "<b>10</b> of 10 calls match")
}
