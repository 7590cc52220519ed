package inspector_test

import (
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// serve returns the pages and the history of a collector.
func serve(t testing.TB) (http.Handler, *history.History) {
	t.Helper()
	c, err := engine.New(engine.Config{AnyWriteKey: true})
	require.NoError(t, err)
	guard, err := access.NewGuard(access.GuardConfig{Loopback: true})
	require.NoError(t, err)
	pages := inspector.New(c, inspector.Config{Guard: guard})
	t.Cleanup(func() {
		pages.Close()
		assert.NoError(t, c.Close())
	})
	return pages, c.History()
}

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// add adds a call of source web with a numbered messageId.
func add(t testing.TB, h *history.History, n int, members string) (ref string) {
	t.Helper()
	at := start.Add(time.Duration(n) * time.Second).Format(time.RFC3339)
	id := fmt.Sprint("m", n)
	c, err := event.ReadCall("web", []byte(fmt.Sprintf(`{"messageId":%q,"timestamp":%q,"receivedAt":%q,%s}`, id, at, at, members)))
	require.NoError(t, err)
	h.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: []tracking.Call{c}}})
	return history.RefOfCall("web", id)
}

func get(pages http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
}

func TestHostileIDsAreEscaped(t *testing.T) {
	pages, h := serve(t)
	for n, id := range []string{
		`<script>alert(1)</script>`, `"><img src=x>`, `javascript:alert(1)`, `a&b=c#d`, `../../etc`, "a\u202eb", "a b+c%20d", "\u0000", strings.Repeat("x", 900),
	} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			text := strings.NewReplacer(`"`, `\"`, "\u0000", `\u0000`).Replace(id)
			add(t, h, n, fmt.Sprintf(`"type":"identify","userId":"%s","anonymousId":"anon-%d","traits":{"%s":"%s"}`, text, n, text, text))
			w := get(pages, "/user?"+url.Values{"id": {id}}.Encode())
			assert.Equal(t, http.StatusOK, w.Code)
			body := w.Body.String()
			assert.Contains(t, body, "<h2 id=\"calls-of\">1 call ")
			assert.NotContains(t, body, "<script>alert")
			assert.NotContains(t, body, "<img")
			assert.NotContains(t, body, `href="javascript`)
			assert.Contains(t, body, fmt.Sprintf("anon-%d", n), "joined to it")
		})
	}
}

func TestUsersPageListsRecentUsers(t *testing.T) {
	pages, h := serve(t)
	assert.Contains(t, get(pages, "/user").Body.String(), "No users yet")
	add(t, h, 0, `"type":"track","event":"A"`)
	for n := 1; n <= 30; n++ {
		add(t, h, n, fmt.Sprintf(`"type":"track","event":"Old","userId":"user-%d"`, n))
	}
	add(t, h, 31, `"type":"page","name":"Home","anonymousId":"anon"`)
	last := add(t, h, 32, `"type":"track","event":"<New>","userId":"user-20"`)
	add(t, h, 33, `"type":"delete","userId":"deleted"`)
	h.Observe(tracking.Rejection{Source: "web", ReceivedAt: start, Body: []byte(`{"type":"track","userId":"rejected"}`), Code: tracking.CodeNoEvent})
	body := get(pages, "/user", "X-Fragment", "1").Body.String()
	var users []string
	for _, row := range regexp.MustCompile(`<th scope="row"><a[^>]*><bdi>([^<]*)<`).FindAllStringSubmatch(body, -1) {
		users = append(users, row[1])
	}
	require.Len(t, users, 25)
	assert.Equal(t, []string{"user-20", "anon", "user-30", "user-29"}, users[:4])
	assert.Contains(t, body, `<a href="/?call=`+last+`"><bdi>&lt;New&gt;</bdi></a>`)
	assert.NotContains(t, body, "<h1>", "a script requests the list only")
}

func TestUserPageErrors(t *testing.T) {
	pages, h := serve(t)
	one := add(t, h, 1, `"type":"track","event":"A","userId":"ada"`)
	two := add(t, h, 2, `"type":"track","event":"A","userId":"bob"`)
	h.Observe(tracking.Rejection{Source: "web", ReceivedAt: start, Body: []byte(`{"type":"track","userId":"ada`), Code: tracking.CodeNoEvent})
	for path, want := range map[string]struct {
		status int
		part   string
	}{
		"/user":                                 {200, ">bob</bdi>"},
		"/user?id=+":                            {200, ">ada</bdi>"},
		"/user?id=nobody":                       {200, "No calls found for this user"},
		"/user?id=ada&from=x":                   {200, "1 call "},
		"/user?id=ada&from=-5":                  {200, "1 call "},
		"/user?id=ada&from=99":                  {200, "Earlier calls"},
		"/user?id=" + strings.Repeat("x", 1001): {400, "at most 1,000 bytes"},
		"/compare":                              {200, "Select two calls"},
		"/compare?call=" + one:                  {200, "Compare with"},
		"/compare?call=" + one + "&call=" + two: {200, "1 difference"},
		"/compare?call=" + one + "&call=" + one: {200, "No differences"},
		"/compare?call=none":                    {404, "has expired"},
		"/compare?call=" + one + "&call=%3Cx":   {404, "has expired"},
		"/compare?call=1&call=2&call=3":         {400, "select two calls"},
	} {
		w := get(pages, path)
		assert.Equal(t, want.status, w.Code, path)
		assert.Contains(t, w.Body.String(), want.part, path)
	}
	choices := get(pages, "/compare?call="+two).Body.String()
	assert.Contains(t, choices, "/compare?call="+one+"&amp;call="+two, "the older one first")
}

func TestCompareRejectedCalls(t *testing.T) {
	pages, h := serve(t)
	one := add(t, h, 1, `"type":"track","event":"A","userId":"ada"`)
	h.Observe(tracking.Rejection{Source: "web", ReceivedAt: start, Body: []byte(`{"type":`), Code: tracking.CodeNoEvent})
	var ref string
	h.View(func(f *history.Feed) {
		for i := range f.Since(history.Cursor{}) {
			if i.Rejection != nil {
				ref = fmt.Sprint(i.Order)
			}
		}
	})
	end, _ := h.End()
	epoch, _, _ := strings.Cut(end.String(), ".")
	w := get(pages, "/compare?call="+one+"&call="+epoch+"-"+ref)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "is not valid JSON")
}

func TestTimelineFragmentCountsNewCalls(t *testing.T) {
	pages, h := serve(t)
	add(t, h, 1, `"type":"track","event":"A","userId":"ada"`)
	end, _ := h.End()
	since := fmt.Sprintf("/user?id=ada&since=%d", end.Order)
	assert.Empty(t, get(pages, since, "X-Fragment", "1").Body.String())
	add(t, h, 2, `"type":"track","event":"A","userId":"bob"`)
	assert.Empty(t, get(pages, since, "X-Fragment", "1").Body.String())
	add(t, h, 3, `"type":"track","event":"A","userId":"ada"`)
	assert.Contains(t, get(pages, since, "X-Fragment", "1").Body.String(), "Show 1 new call")
}

func TestTimelinePages(t *testing.T) {
	pages, h := serve(t)
	for n := range 250 {
		add(t, h, n, `"type":"track","event":"A","userId":"ada"`)
	}
	for path, want := range map[string][]string{
		"/user?id=ada":          {"Calls 151 to 250 of 250", "from=50\">Earlier"},
		"/user?id=ada&from=50":  {"Calls 51 to 150 of 250", "from=0\">Earlier", "from=150\">Later"},
		"/user?id=ada&from=0":   {"Calls 1 to 100 of 250", "from=100\">Later", ">Newest calls<"},
		"/user?id=ada&from=200": {"Calls 201 to 250 of 250", "from=100\">Earlier"},
	} {
		body := get(pages, path).Body.String()
		for _, part := range want {
			assert.Contains(t, body, part, path)
		}
	}
}

func BenchmarkUserPageAmongAHundredThousandCalls(b *testing.B) {
	pages, h := serve(b)
	for n := range 100_000 {
		typ := "track"
		if n%10 == 0 {
			typ = "identify"
		}
		add(b, h, n, fmt.Sprintf(`"type":%q,"event":"Order Completed","userId":"user-%d","anonymousId":"anon-%d","traits":{"plan":"Pro","n":%d},"properties":{"orderId":90071992547409931,"total":129.50,"currency":"EUR","items":[{"sku":"B-17","unit price":9.5}]},"context":{"library":{"name":"x","version":"1"},"ip":"8.8.8.8"}`, typ, n%997, n%997, n))
	}
	for _, path := range []string{"/user?id=user-7", "/user?id=nobody", "/user?id=user-7&since=1"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				var header []string
				if strings.Contains(path, "since") {
					header = []string{"X-Fragment", "1"}
				}
				if w := get(pages, path, header...); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}

// Spaces in an ID are often a mistake of the sender, which the page must not hide.
func TestUserIDsKeepTheirSpaces(t *testing.T) {
	pages, h := serve(t)
	add(t, h, 1, `"type":"track","event":"A","userId":" ada "`)
	link := regexp.MustCompile(`<th scope="row"><a href="([^"]+)"`).FindStringSubmatch(get(pages, "/user").Body.String())
	require.NotNil(t, link)
	assert.Contains(t, get(pages, html.UnescapeString(link[1])).Body.String(), ">1 call ")
	assert.Contains(t, get(pages, "/user?id=ada").Body.String(), "No calls found for this user")
}
