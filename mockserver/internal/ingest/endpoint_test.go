package ingest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"image/gif"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestCallPaths(t *testing.T) {
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
		in := newIngest(nil)
		body := batch
		if typ != "" {
			body = `{"userId":"u","previousId":"p","groupId":"g","event":"E","writeKey":"key"}`
		}
		res := in.ask(http.MethodPost, path, strings.NewReader(body))
		assert.Equal(t, http.StatusOK, res.Code, path)
		assert.Equal(t, success, res.Body.String(), path)
		assert.Equal(t, "application/json", res.Header().Get("Content-Type"))
		if typ == "" {
			typ = "track"
		}
		if calls := in.Stored(); assert.Len(t, calls, 1, path) {
			assert.Equal(t, typ, calls[0].Type, path)
			assert.Contains(t, string(calls[0].Body), `"type":"`+typ+`"`, path)
		}
	}
}

func TestUnknownPathsAndMethods(t *testing.T) {
	in := newIngest(nil)
	for _, path := range []string{"/", "/v1", "/v1/batches", "/v2/batch", "/batch", "/import", "/track", "/v1/x", "/v1/pixel", "/v1/pixel/", "/v1/pixel/nothing",
		"/v1/projects", "/v1/projects/settings", "/v1/projects//settings", "/v1/projects/a/b/settings", "/v1/delete", "/v1/health"} {
		res := in.post(path, `{}`)
		assert.Equal(t, http.StatusNotFound, res.Code, path)
		assert.Equal(t, "not_found", decode(t, res)["code"], path)
		assert.Equal(t, false, decode(t, res)["success"], path)
	}
	assert.Equal(t, `there is no endpoint "/"; send batches to /v1/batch`, decode(t, in.post("/", `{}`))["message"])
	for _, path := range []string{"/v1/batch", "/v1/t", "/v1/m"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			res := in.ask(method, path, nil)
			assert.Equal(t, http.StatusMethodNotAllowed, res.Code, path)
			assert.Equal(t, "POST, OPTIONS", res.Header().Get("Allow"))
			assert.Equal(t, "method_not_allowed", decode(t, res)["code"])
		}
	}
	for _, path := range []string{"/health", "/ready", "/v1/pixel/track", "/v1/projects/k/settings"} {
		assert.Equal(t, http.StatusMethodNotAllowed, in.post(path, "{}").Code, path)
		assert.Equal(t, http.StatusOK, in.ask(http.MethodHead, path, nil).Code, path)
	}
	assert.Empty(t, in.Stored())
}

func TestCORS(t *testing.T) {
	in := newIngest(nil)
	const origin = "https://shop.example"
	res := in.ask(http.MethodOptions, "/v1/t", nil, "Origin: "+origin,
		"Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,content-type,x-retry-count")
	assert.Equal(t, http.StatusNoContent, res.Code)
	assert.Empty(t, res.Body)
	assert.Equal(t, origin, res.Header().Get("Access-Control-Allow-Origin"))
	assert.Equal(t, "86400", res.Header().Get("Access-Control-Max-Age"))
	assert.Contains(t, res.Header().Get("Access-Control-Allow-Methods"), "POST")
	assert.Equal(t, "authorization,content-type,x-retry-count", res.Header().Get("Access-Control-Allow-Headers"))
	res = in.ask(http.MethodOptions, "/v1/track", nil, "Origin: "+origin, "Access-Control-Request-Headers: anonymousid,x-of-tomorrow")
	assert.Equal(t, "anonymousid,x-of-tomorrow", res.Header().Get("Access-Control-Allow-Headers"), "libraries add headers")
	assert.Equal(t, []string{"Origin", "Access-Control-Request-Headers"}, res.Header().Values("Vary"))
	const call = `{"userId":"u","event":"E","writeKey":"k"}`
	for path, body := range map[string]string{"/v1/t": call, "/v1/b": `nonsense`, "/nothing": ``} {
		res = in.ask(http.MethodPost, path, strings.NewReader(body), "Origin: "+origin)
		assert.Equal(t, origin, res.Header().Get("Access-Control-Allow-Origin"), "also with status %d", res.Code)
		assert.Equal(t, "Origin", res.Header().Get("Vary"))
	}
	assert.Empty(t, in.post("/v1/t", call).Header().Get("Access-Control-Allow-Origin"), "no Origin, no CORS")
}

func TestBodyEncodings(t *testing.T) {
	const body = `{"batch":[{"type":"track","userId":"u","event":"E"}],"writeKey":"k"}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(body[:20]))
	require.NoError(t, z.Close()) // another gzip member follows
	z.Reset(&packed)
	_, _ = z.Write([]byte(body[20:]))
	require.NoError(t, z.Close())
	for name, test := range map[string]struct {
		body    string
		header  []string
		chunked bool
		status  int
	}{
		"JSON":                          {body, []string{"Content-Type: application/json"}, false, 200},
		"text":                          {body, []string{"Content-Type: text/plain;charset=UTF-8"}, false, 200},
		"a form":                        {body, []string{"Content-Type: application/x-www-form-urlencoded"}, false, 200},
		"no type":                       {body, nil, false, 200},
		"chunked":                       {body, nil, true, 200},
		"gzip":                          {packed.String(), []string{"Content-Encoding: gzip"}, false, 200},
		"gzip, chunked":                 {packed.String(), []string{"Content-Encoding: GZIP"}, true, 200},
		"identity":                      {body, []string{"Content-Encoding: identity"}, false, 200},
		"a byte order mark":             {"\xef\xbb\xbf" + body, nil, false, 400},
		"not gzip":                      {body, []string{"Content-Encoding: gzip"}, false, 400},
		"truncated gzip":                {packed.String()[:packed.Len()-12], []string{"Content-Encoding: gzip"}, false, 400},
		"gzip without Content-Encoding": {packed.String(), nil, false, 400},
		"brotli":                        {body, []string{"Content-Encoding: br"}, false, 415},
		"empty":                         {"", nil, false, 400},
	} {
		t.Run(name, func(t *testing.T) {
			in := newIngest(nil)
			var body io.Reader = strings.NewReader(test.body)
			if test.chunked {
				body = io.MultiReader(body) // hides the length
			}
			assert.Equal(t, test.status, in.ask(http.MethodPost, "/v1/batch", body, test.header...).Code)
			if test.status == http.StatusOK {
				assert.Len(t, in.Stored(), 1)
			}
		})
	}
}

func TestClientMetrics(t *testing.T) {
	in := newIngest(nil)
	for range 2 {
		res := in.post("/v1/m", `{"series":[
			{"type":"Counter","metric":"analytics_js.invoke","value":1,"tags":{"library":"analytics.js"}},
			{"type":"Counter","metric":"analytics_js.invoke","value":2},{"type":"Counter","metric":"analytics_js.error","value":1}]}`)
		assert.Equal(t, http.StatusOK, res.Code)
		assert.Equal(t, success, res.Body.String())
	}
	assert.Equal(t, http.StatusBadRequest, in.post("/m", `[`).Code)
	assert.Empty(t, in.Stored())
}

func TestPixelAlwaysReturnsImage(t *testing.T) {
	in := newIngest(nil, tracking.Source{Name: "mail", WriteKey: "key"})
	const call = `{"writeKey":"key","userId":"u1","event":"Email Opened?>","properties":{"subject":"The Electric Daily","n":1}}`
	std, web := base64.StdEncoding.EncodeToString([]byte(call)), base64.RawURLEncoding.EncodeToString([]byte(call))
	require.NotEqual(t, strings.TrimRight(std, "="), web, "the call must use characters on which the alphabets differ")
	stored := 0
	for _, test := range []struct {
		name, path string
		stores     bool
	}{
		{"base64", "/v1/pixel/track?data=" + url.QueryEscape(std), true},
		{"base64 of URLs", "/v1/pixel/track?data=" + web, true},
		{"base64 with blanks instead of plus signs", "/v1/pixel/track?data=" + std, true},
		{"short type", "/v1/pixel/t?data=" + web, true},
		{"trailing slash", "/v1/pixel/track/?data=" + web, true},
		{"plain JSON", "/v1/pixel/track?data=" + url.QueryEscape(call), true},
		{"parameters", "/v1/pixel/track?userId=u1&event=Email+Opened%3F%3E&properties.subject=The+Electric+Daily&properties.n=1&writeKey=key", true},
		{"nothing", "/v1/pixel/track", false},
		{"no base64", "/v1/pixel/track?data=%25%25", false},
		{"no JSON", "/v1/pixel/track?data=" + base64.StdEncoding.EncodeToString([]byte("hello")), false},
		{"another key", "/v1/pixel/track?writeKey=other&userId=u&event=E", false},
		{"an invalid call", "/v1/pixel/track?writeKey=key&userId=u", false},
	} {
		res := in.ask(http.MethodGet, test.path, nil)
		assert.Equal(t, http.StatusOK, res.Code, test.name)
		assert.Equal(t, "image/gif", res.Header().Get("Content-Type"))
		assert.Equal(t, "no-store", res.Header().Get("Cache-Control"))
		image, err := gif.Decode(res.Body)
		require.NoError(t, err)
		assert.Equal(t, 1, image.Bounds().Dx()*image.Bounds().Dy())
		if test.stores {
			stored++
			calls := in.Stored()
			require.Len(t, calls, stored, test.name)
			got := calls[stored-1]
			assert.Equal(t, []string{"mail", "track", "u1", "Email Opened?>"}, []string{got.Source, got.Type, got.UserID, got.Event}, test.name)
			assert.Equal(t, "The Electric Daily", got.Properties()["subject"], test.name)
		}
	}
	assert.Len(t, in.Stored(), stored)
	assert.Len(t, in.refusals, 4)
	assert.Len(t, in.rejections, 1)
}
