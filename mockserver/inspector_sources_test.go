package mockserver_test

import (
	"html"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestSourcesPageRevealsWriteKeysToAuthorizedUsers(t *testing.T) {
	const token, webKey, hostileKey, hostile = "the-admin-token", "web-write-key", "key'\"<b>", `<i>"a & b`
	collector := newCollector(t, engine.Config{Sources: []tracking.Source{{Name: "web", WriteKey: webKey}, {Name: hostile, WriteKey: hostileKey, CallsPerSecond: 1500}}})
	inspector, _ := newPages(t, collector, access.GuardConfig{Token: token})
	browser := newBrowser(t)
	browser.Transport = mockserver.NewTransport(inspector)
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	open := func(path string, header ...string) (int, string) {
		res, body := request(t, browser, http.MethodGet, "http://localhost"+path, nil, header...)
		return res.StatusCode, html.UnescapeString(body)
	}
	revealed, copied := "/sources?"+url.Values{"key": {hostile}}.Encode(), "/sources/key?"+url.Values{"name": {hostile}}.Encode()
	for _, path := range []string{"/sources", "/sources?key=web", "/sources/key?name=web", revealed, copied} {
		status, body := open(path)
		assert.Equal(t, http.StatusSeeOther, status, path)
		assert.NotContains(t, body, webKey)
		status, body = open(path, "Authorization", "Bearer wrong", "X-Fragment", "1")
		assert.Equal(t, http.StatusUnauthorized, status, path)
		assert.NotContains(t, body, webKey)
	}

	authorized := []string{"Authorization", "Bearer " + token}
	status, body := open("/sources", authorized...)
	assert.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, text.Redact(webKey))
	assert.Contains(t, body, "at most 1,500")
	for _, key := range []string{webKey, hostileKey} {
		assert.NotContains(t, body, key)
	}
	_, body = open("/sources?key=web", authorized...)
	assert.Contains(t, body, `analytics.New("`+webKey+`")`)
	assert.NotContains(t, body, hostileKey, "other keys stay hidden")
	_, body = open(revealed, authorized...)
	assert.Contains(t, body, `<code>`+hostileKey+`</code>`)
	assert.NotContains(t, body, webKey)
	status, body = open(copied, authorized...)
	assert.Equal(t, http.StatusOK, status)
	assert.Equal(t, html.UnescapeString(hostileKey), body)
	for _, path := range []string{"/sources?key=nobody", "/sources/key?name=nobody", "/sources/key"} {
		status, _ = open(path, authorized...)
		assert.Equal(t, http.StatusNotFound, status, path)
	}
}

func TestSourcesPageWithoutConfiguredSources(t *testing.T) {
	srv := mockserver.RunT(t)
	_, body := get(t, srv.URL+"/sources")
	assert.Contains(t, body, "Sources appear here with their first call.")
	post(t, srv.URL+"/v1/batch", "a key", track("m", 1))
	_, body = get(t, srv.URL+"/sources")
	assert.Contains(t, body, "accepts any write key")
	assert.Contains(t, body, `View calls`)
	assert.NotContains(t, body, "Reveal")
}
