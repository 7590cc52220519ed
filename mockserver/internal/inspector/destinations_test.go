package inspector_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPreviewLinksToItsExamples(t *testing.T) {
	pages, h := serve(t)
	ref := add(t, h, 1, `"type":"track","userId":"u1","event":"Signed Up","context":{"ip":"1.2.3.4"}`)
	form := url.Values{"new": {"true"}, "name": {"hook"}, "url0": {"https://example.com"}, "enabled": {"true"}, "redact.remove": {"context.ip"}}
	request := httptest.NewRequest(http.MethodPost, "http://localhost/destinations/preview", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Fragment", "1")
	preview := httptest.NewRecorder()
	pages.ServeHTTP(preview, request)
	require.Equal(t, http.StatusOK, preview.Code)
	link := regexp.MustCompile(`href="([^"]*)"><bdi>Signed Up`).FindStringSubmatch(preview.Body.String())
	require.NotNil(t, link, preview.Body)
	page := httptest.NewRecorder()
	pages.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "http://localhost"+html.UnescapeString(link[1]), nil))
	assert.Equal(t, http.StatusOK, page.Code)
	assert.Contains(t, page.Body.String(), "/calls/"+ref+"/body", "the panel of the call is open")
}
