package mockserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/gif"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// ask sends a request whose header is given as lines of "Name: value", and
// returns the response with its body read.
func ask(t *testing.T, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if req.Header.Add(name, value); name == "Host" {
			req.Host = value
		}
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res, string(text)
}

// answer decodes the JSON of an answer.
func answer(t *testing.T, body string) map[string]any {
	t.Helper()
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &got), body)
	return got
}

const ok = `{"success": true}`

func TestEveryPathThatTakesCalls(t *testing.T) {
	const track = `{"type":"track","userId":"u","event":"E"}`
	batch := `{"batch":[` + track + `],"writeKey":"key"}`
	paths := map[string]string{ // path: type of the call, "" for a batch
		"/v1/batch": "", "/v1/batch/": "", "/v1/import": "", "/v1/import/": "", "/v1/b": "", "/v1/b/": "", "/b": "", "//v1/batch": "",
	}
	for short, typ := range map[string]string{"i": "identify", "t": "track", "p": "page", "s": "screen", "g": "group", "a": "alias"} {
		for _, path := range []string{"/v1/" + typ, "/v1/" + typ + "/", "/v1/" + short, "/v1/" + short + "/", "/" + short} {
			paths[path] = typ
		}
	}
	for path, typ := range paths {
		srv := mockserver.RunT(t)
		body := batch
		if typ != "" {
			body = `{"userId":"u","previousId":"p","groupId":"g","event":"E","writeKey":"key"}`
		}
		res, text := ask(t, http.MethodPost, srv.URL+path, body)
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		assert.Equal(t, ok, text, path)
		assert.Equal(t, "application/json", res.Header.Get("Content-Type"))
		if typ == "" {
			typ = "track"
		}
		if calls := srv.Calls(); assert.Len(t, calls, 1, path) {
			assert.Equal(t, typ, calls[0].Type, path)
			assert.Contains(t, string(calls[0].Body), `"type":"`+typ+`"`, path)
		}
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	srv := mockserver.RunT(t)
	for _, path := range []string{"/", "/v1", "/v1/batches", "/v2/batch", "/batch", "/import", "/track", "/v1/x", "/v1/pixel", "/v1/pixel/", "/v1/pixel/nothing",
		"/v1/projects", "/v1/projects/settings", "/v1/projects//settings", "/v1/projects/a/b/settings", "/v1/delete", "/v1/health"} {
		res, text := ask(t, http.MethodPost, srv.URL+path, `{}`)
		assert.Equal(t, http.StatusNotFound, res.StatusCode, path)
		assert.Equal(t, "not_found", answer(t, text)["code"], path)
		assert.Equal(t, false, answer(t, text)["success"], path)
	}
	_, text := ask(t, http.MethodPost, srv.URL, `{}`)
	assert.Equal(t, `there is no "/" here; batches go to /v1/batch`, answer(t, text)["message"])
	for path, allow := range map[string]string{"/v1/batch": "POST", "/v1/t": "POST", "/v1/m": "POST"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			res, text := ask(t, method, srv.URL+path, "")
			assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, path)
			assert.Equal(t, allow+", OPTIONS", res.Header.Get("Allow"))
			assert.Equal(t, "method_not_allowed", answer(t, text)["code"])
		}
	}
	for _, path := range []string{"/health", "/ready", "/v1/pixel/track", "/v1/projects/k/settings"} {
		res, _ := ask(t, http.MethodPost, srv.URL+path, "{}")
		assert.Equal(t, http.StatusMethodNotAllowed, res.StatusCode, path)
		res, text := ask(t, http.MethodHead, srv.URL+path, "")
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		assert.Empty(t, text, path)
	}
	assert.Empty(t, srv.Calls())
}

func TestBrowsersOfEverySiteMaySend(t *testing.T) {
	srv := mockserver.RunT(t)
	const origin = "https://shop.example"
	res, text := ask(t, http.MethodOptions, srv.URL+"/v1/t", "", "Origin: "+origin,
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,x-retry-count")
	assert.Equal(t, http.StatusNoContent, res.StatusCode)
	assert.Empty(t, text)
	assert.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "86400", res.Header.Get("Access-Control-Max-Age"))
	assert.Contains(t, res.Header.Get("Access-Control-Allow-Methods"), "POST")
	assert.Equal(t, "authorization,content-type,x-retry-count", res.Header.Get("Access-Control-Allow-Headers"))
	res, _ = ask(t, http.MethodOptions, srv.URL+"/v1/track", "", "Origin: "+origin, "Access-Control-Request-Headers: anonymousid,x-of-tomorrow")
	assert.Equal(t, "anonymousid,x-of-tomorrow", res.Header.Get("Access-Control-Allow-Headers"), "libraries add headers of their own")
	assert.Equal(t, []string{"Origin", "Access-Control-Request-Headers"}, res.Header.Values("Vary"))
	for path, body := range map[string]string{"/v1/t": `{"userId":"u","event":"E","writeKey":"k"}`, "/v1/b": `nonsense`, "/nothing": ``} {
		res, _ = ask(t, http.MethodPost, srv.URL+path, body, "Origin: "+origin)
		assert.Equal(t, origin, res.Header.Get("Access-Control-Allow-Origin"), "also where the answer is %d", res.StatusCode)
		assert.Equal(t, "Origin", res.Header.Get("Vary"))
	}
	res, _ = ask(t, http.MethodPost, srv.URL+"/v1/t", `{"userId":"u","event":"E","writeKey":"k"}`)
	assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), "no Origin, no CORS")
	for _, path := range []string{"/messages", "/api/v1/calls"} {
		res, _ = ask(t, http.MethodGet, srv.URL+path, "", "Origin: "+origin)
		assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), "a page must not read %s", path)
	}
}

func TestEveryFormOfWriteKey(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	config := mockserver.Config{Sources: []tracking.Source{
		{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}, {Name: "odd", WriteKey: "ké/y?"},
	}}
	const call = `"type":"track","userId":"u","event":"E"`
	for name, test := range map[string]struct {
		auth, query, body string
		sources           []string
		code              string
	}{
		"in the query, as beacons have it":   {query: "?writeKey=web-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"in the query, escaped":              {query: "?a=b&writeKey=k%C3%A9%2Fy%3F", body: `{"batch":[{` + call + `}]}`, sources: []string{"odd"}},
		"the header wins over the query":     {auth: "Basic " + encode("web-key:"), query: "?writeKey=ios-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"the body wins over the query":       {query: "?writeKey=ios-key", body: `{"batch":[{` + call + `}],"writeKey":"web-key"}`, sources: []string{"web"}},
		"of no source, in the query":         {query: "?writeKey=other", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"Basic auth":                         {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth with a password":         {auth: "Basic " + encode("web-key:secret"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth without a colon":         {auth: "Basic " + encode("web-key"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth without padding":         {auth: "Basic " + strings.TrimRight(encode("web-key:"), "="), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth in small letters":        {auth: "basic " + encode("web-key:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"a key of other characters":          {auth: "Basic " + encode("ké/y?:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"odd"}},
		"a bearer token":                     {auth: "Bearer web-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"in the body":                        {body: `{"batch":[{` + call + `}],"writeKey":"web-key"}`, sources: []string{"web"}},
		"in the body, before the calls":      {body: `{"writeKey":"web-key","batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth wins over the body":      {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"web"}},
		"an OAuth token beside the body":     {auth: "Bearer eyJhbGciOi.J9.x", body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"ios"}},
		"empty Basic auth":                   {auth: "Basic " + encode(":"), body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"ios"}},
		"a call's key wins over the batch's": {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `}]}`, sources: []string{"ios", "web"}},
		"only on the calls":                  {body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `,"writeKey":"web-key"}]}`, sources: []string{"ios", "web"}},
		"good calls beside one of no one":    {body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `},{` + call + `,"writeKey":"no"}]}`, sources: []string{"ios"}},
		"of no source":                       {auth: "Basic " + encode("other:"), body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"of no source, without calls":        {auth: "Basic " + encode("other:"), body: `{"batch":[]}`, code: "unknown_write_key"},
		"none":                               {body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"not base64":                         {auth: "Basic ~~~", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"an unknown scheme":                  {auth: "Digest web-key", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := mockserver.RunT(t, config)
			res, text := ask(t, http.MethodPost, srv.URL+"/v1/batch"+test.query, test.body, "Authorization: "+test.auth)
			if test.code != "" {
				assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
				assert.Equal(t, test.code, answer(t, text)["code"])
				assert.Equal(t, answer(t, text)["message"], answer(t, text)["error"])
				assert.Empty(t, srv.Calls())
				return
			}
			assert.Equal(t, ok, text)
			var sources []string
			for _, c := range srv.Calls() {
				sources = append(sources, c.Source)
				assert.NotContains(t, string(c.Body), "-key", "a write key is not stored")
			}
			assert.ElementsMatch(t, test.sources, sources)
		})
	}
}

func TestBodiesAreReadWhateverTheirHeadersSay(t *testing.T) {
	const body = `{"batch":[{"type":"track","userId":"u","event":"E"}],"writeKey":"k"}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(body[:20]))
	require.NoError(t, z.Close()) // a second member follows, as gzip allows
	z.Reset(&packed)
	_, _ = z.Write([]byte(body[20:]))
	require.NoError(t, z.Close())
	for name, test := range map[string]struct {
		body    string
		header  []string
		chunked bool
		status  int
	}{
		"JSON":                  {body, []string{"Content-Type: application/json"}, false, 200},
		"text":                  {body, []string{"Content-Type: text/plain;charset=UTF-8"}, false, 200},
		"a form":                {body, []string{"Content-Type: application/x-www-form-urlencoded"}, false, 200},
		"no type":               {body, nil, false, 200},
		"chunked":               {body, nil, true, 200},
		"gzip":                  {packed.String(), []string{"Content-Encoding: gzip"}, false, 200},
		"gzip, chunked":         {packed.String(), []string{"Content-Encoding: GZIP"}, true, 200},
		"identity":              {body, []string{"Content-Encoding: identity"}, false, 200},
		"a byte order mark":     {"\xef\xbb\xbf" + body, nil, false, 400},
		"not gzip":              {body, []string{"Content-Encoding: gzip"}, false, 400},
		"gzip that breaks off":  {packed.String()[:packed.Len()-12], []string{"Content-Encoding: gzip"}, false, 400},
		"gzip that is not said": {packed.String(), nil, false, 400},
		"brotli":                {body, []string{"Content-Encoding: br"}, false, 415},
		"empty":                 {"", nil, false, 400},
	} {
		t.Run(name, func(t *testing.T) {
			srv := mockserver.RunT(t)
			var in io.Reader = strings.NewReader(test.body)
			if test.chunked {
				in = io.MultiReader(in) // hides the length
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/batch", in)
			require.NoError(t, err)
			for _, line := range test.header {
				key, value, _ := strings.Cut(line, ": ")
				req.Header.Set(key, value)
			}
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer res.Body.Close()
			assert.Equal(t, test.status, res.StatusCode)
			if test.status == http.StatusOK {
				assert.Len(t, srv.Calls(), 1)
			}
		})
	}
}

func TestClientMetricsAreCountedAndNotRouted(t *testing.T) {
	srv := mockserver.RunT(t)
	for range 2 {
		res, text := ask(t, http.MethodPost, srv.URL+"/v1/m", `{"series":[
			{"type":"Counter","metric":"analytics_js.invoke","value":1,"tags":{"library":"analytics.js"}},
			{"type":"Counter","metric":"analytics_js.invoke","value":2},{"type":"Counter","metric":"analytics_js.error","value":1}]}`, "Content-Type: text/plain")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, ok, text)
	}
	res, _ := ask(t, http.MethodPost, srv.URL+"/m", `[`)
	assert.Equal(t, http.StatusBadRequest, res.StatusCode)
	assert.Equal(t, map[string]float64{"analytics_js.invoke": 6, "analytics_js.error": 2}, srv.Engine().ClientMetrics())
	assert.Empty(t, srv.Calls())
	var many []string
	for i := range 1000 {
		many = append(many, `{"metric":"`+strings.Repeat("m", i+1)+`","value":1}`)
	}
	ask(t, http.MethodPost, srv.URL+"/v1/m", `{"series":[`+strings.Join(many[:120], ",")+`]}`)
	ask(t, http.MethodPost, srv.URL+"/v1/m", `{"series":[`+strings.Join(many[120:900], ",")+`]}`)
	assert.LessOrEqual(t, len(srv.Engine().ClientMetrics()), 257)
	assert.EqualValues(t, 900-128, srv.Engine().ClientMetrics()["other"], "names of more than 128 bytes")
}

func TestPixelsAlwaysAnswerWithAnImage(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "mail", WriteKey: "key"}}})
	const call = `{"writeKey":"key","userId":"u1","event":"Email Opened?>","properties":{"subject":"The Electric Daily","n":1}}`
	std, web := base64.StdEncoding.EncodeToString([]byte(call)), base64.RawURLEncoding.EncodeToString([]byte(call))
	require.NotEqual(t, strings.TrimRight(std, "="), web, "the call must need the alphabets that differ")
	stored := 0
	for _, test := range []struct {
		name, path string
		stores     bool
	}{
		{"base64", "/v1/pixel/track?data=" + url.QueryEscape(std), true},
		{"base64 of URLs", "/v1/pixel/track?data=" + web, true},
		{"base64 whose plus became a blank", "/v1/pixel/track?data=" + std, true},
		{"the short type", "/v1/pixel/t?data=" + web, true},
		{"a slash at the end", "/v1/pixel/track/?data=" + web, true},
		{"plain JSON", "/v1/pixel/track?data=" + url.QueryEscape(call), true},
		{"parameters", "/v1/pixel/track?userId=u1&event=Email+Opened%3F%3E&properties.subject=The+Electric+Daily&properties.n=1&writeKey=key", true},
		{"nothing", "/v1/pixel/track", false},
		{"no base64", "/v1/pixel/track?data=%25%25", false},
		{"no JSON", "/v1/pixel/track?data=" + base64.StdEncoding.EncodeToString([]byte("hello")), false},
		{"another key", "/v1/pixel/track?writeKey=other&userId=u&event=E", false},
		{"a bad call", "/v1/pixel/track?writeKey=key&userId=u", false},
	} {
		res, body := ask(t, http.MethodGet, srv.URL+test.path, "")
		assert.Equal(t, http.StatusOK, res.StatusCode, test.name)
		assert.Equal(t, "image/gif", res.Header.Get("Content-Type"))
		assert.Equal(t, "no-store", res.Header.Get("Cache-Control"))
		image, err := gif.Decode(strings.NewReader(body))
		require.NoError(t, err)
		assert.Equal(t, 1, image.Bounds().Dx()*image.Bounds().Dy())
		if test.stores {
			stored++
			calls := srv.Calls()
			require.Len(t, calls, stored, test.name)
			got := calls[stored-1]
			assert.Equal(t, []string{"mail", "track", "u1", "Email Opened?>"}, []string{got.Source, got.Type, got.UserID, got.Event}, test.name)
			assert.Equal(t, "The Electric Daily", got.Properties()["subject"], test.name)
		}
	}
	assert.Len(t, srv.Calls(), stored)
	assert.Equal(t, 4, refused(srv))
	assert.Len(t, srv.Engine().History().Rejections(), 1)
}

func TestLibrariesLearnWhereToSend(t *testing.T) {
	hook := webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://127.0.0.1:1/"}}}
	srv := mockserver.RunT(t, mockserver.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "k1"}, {Name: "ios", WriteKey: "k2"}},
		Destinations: []tracking.Destination{{Name: "hook", Sources: []string{"web"}, Settings: hook},
			{Name: "off", Disabled: true, Settings: hook}},
	})
	host := strings.TrimPrefix(srv.URL, "http://")
	for key, unbundled := range map[string][]any{"k1": {"Webhooks"}, "k2": {}} {
		for _, path := range []string{"/v1/projects/" + key + "/settings", "/projects/" + key + "/settings/"} {
			res, text := ask(t, http.MethodGet, srv.URL+path, "", "Origin: https://shop.example")
			assert.Equal(t, http.StatusOK, res.StatusCode)
			assert.Equal(t, "https://shop.example", res.Header.Get("Access-Control-Allow-Origin"))
			got := answer(t, text)
			assert.Equal(t, map[string]any{
				"apiKey": key, "apiHost": host + "/v1", "protocol": "http", "retryQueue": true, "addBundledMetadata": true,
				"unbundledIntegrations": unbundled, "maybeBundledConfigIds": map[string]any{},
			}, got["integrations"].(map[string]any)["Segment.io"])
			assert.IsType(t, map[string]any{}, got["plan"])
			assert.IsType(t, map[string]any{}, got["edgeFunction"])
		}
	}
	_, text := ask(t, http.MethodGet, srv.URL+"/v1/projects/k1/settings", "", "X-Forwarded-Proto: https")
	assert.Equal(t, "https", answer(t, text)["integrations"].(map[string]any)["Segment.io"].(map[string]any)["protocol"])
	res, text := ask(t, http.MethodGet, srv.URL+"/v1/projects/nobody/settings", "")
	assert.Equal(t, http.StatusUnauthorized, res.StatusCode)
	assert.Equal(t, "unknown_write_key", answer(t, text)["code"])
}

// refused returns how many requests were refused, of those that are remembered.
func refused(srv *mockserver.Server) (n int) {
	for _, r := range srv.Engine().History().Refusals() {
		n += r.Count
	}
	return n
}

// TestWriteKeysAreNotKept: what is remembered for people to look at does not give
// them away.
func TestWriteKeysAreNotKept(t *testing.T) {
	const key = "a-key-that-is-secret"
	srv := mockserver.RunT(t, mockserver.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}})
	ask := func(t *testing.T, method, url, body string) {
		ask(t, method, url, body)
		for _, r := range srv.Engine().History().Refusals() { // each before others are put to it
			assert.NotContains(t, r.Path+r.Message, key)
			assert.LessOrEqual(t, len([]rune(r.Path)), 200+len([]rune("…")))
		}
	}
	for _, path := range []string{"/v1/projects/" + key + "/settings", "/projects/" + key, "/v1/projects/" + key + "/other/" + strings.Repeat("x", 1000)} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			ask(t, method, srv.URL+path, "")
		}
	}
	ask(t, http.MethodGet, srv.URL+"/v1/pixel/track?writeKey="+key, "")
	ask(t, http.MethodPost, srv.URL+"/v1/batch", `{"writeKey":"`+key+`","batch":[]}`)
	ask(t, http.MethodPost, srv.URL+"/v1/batch", `{"batch":[{"type":"track","event":"E","writeKey" : "`+key+`","userId":"u"},{"type":"track","userId":"u","writeKey":"web-key"}]}`)
	rejections := srv.Rejections()
	assert.Equal(t, 8, refused(srv))
	require.Len(t, rejections, 2)
	assert.Regexp(t, `^{"type":"track","event":"E","writeKey" : "a-ke…[0-9a-f]{8}","userId":"u"}$`, string(rejections[0].Body))
	assert.Regexp(t, `^{"type":"track","userId":"u","writeKey":"we…[0-9a-f]{8}"}$`, string(rejections[1].Body))
	assert.NotContains(t, rejections[0].Message, key)
}

// TestNoPathShowsAWriteKey: a library asks for its files and its settings by its key,
// and people put keys in all places.
func TestNoPathShowsAWriteKey(t *testing.T) {
	c, err := engine.New(engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: "web-key"}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	const unknown = "hFx3kQ9mZw7LrT2vYb8N"
	for _, key := range []string{"web-key", unknown} {
		for _, path := range []string{
			"/v1/projects/%s", "/v1/projects//%s/settings", "/v1/projects/x/%s/settings", "/Projects/%s/settings", "/projects/a/projects/%s/settings",
			"/analytics.js/v1/%s/analytics.min.js", "/%s", "/%s/v1/batch", "/v1/batch/%s", "/v1/batch%%3FwriteKey=%s", "/v1/batch?writeKey=%s", "/v1/nothing?writeKey=%s", "/v1/pixel/%s",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				res := serve(c, method, fmt.Sprintf(path, key), "{")
				assert.NotContains(t, res.Body.String(), key, "%s %s", method, path)
			}
		}
	}
	for _, r := range c.History().Refusals() {
		assert.NotContains(t, r.Path+r.Message, "web-key")
		assert.NotContains(t, r.Path+r.Message, unknown)
	}
	assert.Contains(t, serve(c, http.MethodGet, "/wp-admin/setup-config.php", "").Body.String(), "/wp-admin/setup-config.php", "what is no key is shown")
}

func TestMessagesAreDrainedWithoutWhatDiffers(t *testing.T) {
	srv := mockserver.RunT(t)
	messages := func() []map[string]any {
		_, text := ask(t, http.MethodPost, srv.URL+"/messages", "")
		var got []map[string]any
		require.NoError(t, json.Unmarshal([]byte(text), &got))
		return got
	}
	assert.Equal(t, []map[string]any{}, messages())
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"event":"Hello World","type":"track","userId":"u","messageId":"m1","timestamp":"2026-01-31T12:00:00Z"},
		{"type":"identify","userId":"u","traits":{"n":12345678901234567890}}],"sentAt":"2026-01-31T12:00:00Z"}`)
	assert.Equal(t, []map[string]any{
		{"event": "Hello World", "type": "track", "userId": "u"},
		{"type": "identify", "userId": "u", "traits": map[string]any{"n": 12345678901234567890.0}},
	}, messages())
	assert.Empty(t, messages(), "they were drained")
	assert.Len(t, srv.Calls(), 2, "but only for /messages")
	post(t, srv.URL+"/v1/page", "key", `{"userId":"u","name":"Home"}`)
	srv.Clear()
	assert.Empty(t, messages())
	post(t, srv.URL+"/v1/page", "key", `{"userId":"u","name":"Home"}`)
	assert.Equal(t, []map[string]any{{"type": "page", "userId": "u", "name": "Home"}}, messages())
}

func TestMessagesOfAnEarlierCollectorAreNotNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := history.New(0)
		c := newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"Before"}`)
		time.Sleep(time.Second)
		c = newCollector(t, engine.Config{Messages: true, History: history})
		serve(c, http.MethodPost, "/v1/page", `{"userId":"u","name":"After"}`)
		res := serve(admin.New(c, ""), http.MethodGet, "/messages", "")
		assert.Equal(t, `[{"userId":"u","name":"After","type":"page"}]`+"\n", res.Body.String())
	})
}

func TestMessagesAreForTestsAlone(t *testing.T) {
	res := serve(admin.New(newCollector(t, engine.Config{}), ""), http.MethodGet, "/messages", "")
	assert.Equal(t, http.StatusNotFound, res.Code)
}

func TestHealthAndReadiness(t *testing.T) {
	srv := mockserver.RunT(t)
	for path, status := range map[string]string{"/health": "ok", "/ready": "ready"} {
		res, text := ask(t, http.MethodGet, srv.URL+path, "")
		assert.Equal(t, http.StatusOK, res.StatusCode)
		assert.Equal(t, status, answer(t, text)["status"])
	}
	srv.Engine().Drain()
	res, text := ask(t, http.MethodGet, srv.URL+"/ready", "")
	assert.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	assert.Equal(t, "unavailable", answer(t, text)["status"])
	res, _ = ask(t, http.MethodGet, srv.URL+"/health", "")
	assert.Equal(t, http.StatusOK, res.StatusCode)
}

func TestReadingMessagesDrainsNone(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "k", track("m", 1))
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodGet} {
		ask(t, method, srv.URL+"/messages", "")
		ask(t, method, srv.URL+"/messages?raw", "")
	}
	_, text := ask(t, http.MethodGet, srv.URL+"/messages?drain", "")
	assert.Contains(t, text, "Tested")
	_, text = ask(t, http.MethodGet, srv.URL+"/messages", "")
	assert.Equal(t, "[]\n", text)
}

// TestStrangersReadNoMessages: a page of another site that a browser on this machine
// shows, and one whose name leads to this machine.
func TestStrangersReadNoMessages(t *testing.T) {
	srv := mockserver.RunT(t)
	post(t, srv.URL+"/v1/batch", "k", track("m", 1))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		for _, headers := range [][]string{
			{"Host: evil.example"}, {"Origin: https://evil.example"}, {"Origin: null"}, {"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"},
		} {
			res, text := ask(t, method, srv.URL+"/messages?drain", "", headers...)
			assert.Contains(t, []int{http.StatusForbidden, http.StatusMisdirectedRequest}, res.StatusCode, "%s %s", method, headers)
			assert.NotContains(t, text, "Tested")
			assert.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
		}
	}
	_, text := ask(t, http.MethodGet, srv.URL+"/messages", "", "Sec-Fetch-Site: none")
	assert.Contains(t, text, "Tested", "nothing was drained")
}

func TestARefusalKeepsLittleOfItsPath(t *testing.T) {
	c := newCollector(t, engine.Config{})
	long := strings.Repeat("ä", 20_000)
	for _, path := range []string{"/" + long, "/v1/pixel/" + long} {
		serve(c, http.MethodGet, path, "")
	}
	refusals := c.History().Refusals()
	require.Len(t, refusals, 2)
	for _, r := range refusals {
		assert.Less(t, len(r.Path), 1000)
		assert.Less(t, len(r.Message), 1000)
	}
}
