package ingest_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestWriteKeyFormats(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	sources := []tracking.Source{{Name: "web", WriteKey: "web-key"}, {Name: "ios", WriteKey: "ios-key"}, {Name: "odd", WriteKey: "ké/y?"}}
	const call = `"type":"track","userId":"u","event":"E"`
	for name, test := range map[string]struct {
		auth, query, body string
		sources           []string
		code              string
	}{
		"in the query, as in beacons":                    {query: "?writeKey=web-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"in the query, escaped":                          {query: "?a=b&writeKey=k%C3%A9%2Fy%3F", body: `{"batch":[{` + call + `}]}`, sources: []string{"odd"}},
		"the header has precedence over the query":       {auth: "Basic " + encode("web-key:"), query: "?writeKey=ios-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"the body has precedence over the query":         {query: "?writeKey=ios-key", body: `{"batch":[{` + call + `}],"writeKey":"web-key"}`, sources: []string{"web"}},
		"unknown key in the query":                       {query: "?writeKey=other", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"Basic auth":                                     {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth with a password":                     {auth: "Basic " + encode("web-key:secret"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth without a colon":                     {auth: "Basic " + encode("web-key"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth without padding":                     {auth: "Basic " + strings.TrimRight(encode("web-key:"), "="), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"lower-case scheme":                              {auth: "basic " + encode("web-key:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"a key with special characters":                  {auth: "Basic " + encode("ké/y?:"), body: `{"batch":[{` + call + `}]}`, sources: []string{"odd"}},
		"a bearer token":                                 {auth: "Bearer web-key", body: `{"batch":[{` + call + `}]}`, sources: []string{"web"}},
		"in the body":                                    {body: `{"batch":[{` + call + `}],"writeKey":"web-key"}`, sources: []string{"web"}},
		"in the body, before the calls":                  {body: `{"writeKey":"web-key","batch":[{` + call + `}]}`, sources: []string{"web"}},
		"Basic auth has precedence over the body":        {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"web"}},
		"an OAuth token and a key in the body":           {auth: "Bearer eyJhbGciOi.J9.x", body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"ios"}},
		"empty Basic auth":                               {auth: "Basic " + encode(":"), body: `{"batch":[{` + call + `}],"writeKey":"ios-key"}`, sources: []string{"ios"}},
		"the call's key has precedence over the batch's": {auth: "Basic " + encode("web-key:"), body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `}]}`, sources: []string{"ios", "web"}},
		"only on the calls":                              {body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `,"writeKey":"web-key"}]}`, sources: []string{"ios", "web"}},
		"valid calls and one with an unknown key":        {body: `{"batch":[{` + call + `,"writeKey":"ios-key"},{` + call + `},{` + call + `,"writeKey":"no"}]}`, sources: []string{"ios"}},
		"unknown key":                                    {auth: "Basic " + encode("other:"), body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"unknown key without calls":                      {auth: "Basic " + encode("other:"), body: `{"batch":[]}`, code: "unknown_write_key"},
		"none":                                           {body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"not base64":                                     {auth: "Basic ~~~", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
		"an unknown scheme":                              {auth: "Digest web-key", body: `{"batch":[{` + call + `}]}`, code: "unknown_write_key"},
	} {
		t.Run(name, func(t *testing.T) {
			in := newIngest(nil, sources...)
			res := in.ask(http.MethodPost, "/v1/batch"+test.query, strings.NewReader(test.body), "Authorization: "+test.auth)
			if test.code != "" {
				assert.Equal(t, http.StatusUnauthorized, res.Code)
				assert.Equal(t, test.code, decode(t, res)["code"])
				assert.Equal(t, decode(t, res)["message"], decode(t, res)["error"])
				assert.Empty(t, in.Stored())
				return
			}
			assert.Equal(t, success, res.Body.String())
			var got []string
			for _, c := range in.Stored() {
				got = append(got, c.Source)
				assert.NotContains(t, string(c.Body), "-key", "a write key is not stored")
			}
			assert.ElementsMatch(t, test.sources, got)
		})
	}
}

func TestUnknownWriteKeysCreateSources(t *testing.T) {
	table := ingest.NewSourceTable([]tracking.Source{{Name: "web", WriteKey: "web-key"}}, true, nil)
	for key, want := range map[string]string{
		"web-key": "web",
		"other":   "other",
		"web":     text.Redact("web"), // the name of another source
		"a\nb":    text.Redact("a\nb"),
	} {
		name, known := table.SourceOf(key)
		assert.True(t, known)
		assert.Equal(t, want, name)
	}
	_, known := table.SourceOf("")
	assert.False(t, known)
}

// TestWriteKeysAreRedacted checks all data that is retained for display.
func TestWriteKeysAreRedacted(t *testing.T) {
	const key = "a-key-that-is-secret"
	in := newIngest(nil, tracking.Source{Name: "web", WriteKey: "web-key"})
	for _, path := range []string{"/v1/projects/" + key + "/settings", "/projects/" + key, "/v1/projects/" + key + "/other/" + strings.Repeat("x", 1000)} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			in.ask(method, path, nil)
		}
	}
	in.ask(http.MethodGet, "/v1/pixel/track?writeKey="+key, nil)
	for _, body := range []string{
		`{"writeKey":"` + key + `","batch":[]}`,
		`{"batch":[{"type":"track","event":"E","writeKey" : "` + key + `","userId":"u"},{"type":"track","userId":"u","writeKey":"web-key"}]}`,
	} {
		in.ask(http.MethodPost, "/v1/batch", strings.NewReader(body))
	}
	assert.Len(t, in.refusals, 8)
	for _, r := range in.refusals {
		assert.NotContains(t, r.Path+r.Message, key)
		assert.LessOrEqual(t, len([]rune(r.Path)), 200+len([]rune("…")))
	}
	rejections := in.rejections
	require.Len(t, rejections, 2)
	assert.Regexp(t, `^{"type":"track","event":"E","writeKey" : "a-ke…[0-9a-f]{8}","userId":"u"}$`, string(rejections[0].Body))
	assert.Regexp(t, `^{"type":"track","userId":"u","writeKey":"we…[0-9a-f]{8}"}$`, string(rejections[1].Body))
	assert.NotContains(t, rejections[0].Message, key)
}

// TestWriteKeysInPathsAreRedacted checks paths of files and settings, where libraries put the
// key, and other paths.
func TestWriteKeysInPathsAreRedacted(t *testing.T) {
	in := newIngest(nil, tracking.Source{Name: "web", WriteKey: "web-key"})
	const unknown = "hFx3kQ9mZw7LrT2vYb8N"
	for _, key := range []string{"web-key", unknown} {
		for _, path := range []string{
			"/v1/projects/%s", "/v1/projects//%s/settings", "/v1/projects/x/%s/settings", "/Projects/%s/settings", "/projects/a/projects/%s/settings",
			"/analytics.js/v1/%s/analytics.min.js", "/%s", "/%s/v1/batch", "/v1/batch/%s", "/v1/batch%%3FwriteKey=%s", "/%%ff%%ff%%ff%%ff%%ff%%ff%%ff%%ff%%ff%%ffwritekey=%s", "/ȺȺȺȺWriteKey=%s", "/v1/batch?writeKey=%s", "/v1/nothing?writeKey=%s", "/v1/pixel/%s",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				res := in.ask(method, fmt.Sprintf(path, key), strings.NewReader("{"), withKey)
				assert.NotContains(t, res.Body.String(), key, "%s %s", method, path)
			}
		}
	}
	for _, r := range in.refusals {
		assert.NotContains(t, r.Path+r.Message, "web-key")
		assert.NotContains(t, r.Path+r.Message, unknown)
	}
	assert.Contains(t, in.ask(http.MethodGet, "/wp-admin/setup-config.php", nil).Body.String(), "/wp-admin/setup-config.php", "other parts are visible")
}

func TestLongPathIsTruncated(t *testing.T) {
	in := newIngest(nil)
	long := strings.Repeat("ä", 20_000)
	for _, path := range []string{"/" + long, "/v1/pixel/" + long} {
		in.ask(http.MethodGet, path, nil)
	}
	require.Len(t, in.refusals, 2)
	for _, r := range in.refusals {
		assert.Less(t, len(r.Path), 1000)
		assert.Less(t, len(r.Message), 1000)
	}
}

// TestKeyInBodyNamesTheSource checks that rejected calls and refused requests are listed with their
// source if the only write key is in the body.
func TestKeyInBodyNamesTheSource(t *testing.T) {
	large := strings.Repeat("x", 40_000)
	for _, test := range []struct {
		path, body string
		strict     bool
		status     int
	}{
		{"/v1/t", `{"userId":"u","event":"E","properties":{"x":"` + large + `"},"writeKey":"web-key"}`, false, http.StatusOK},
		{"/v1/batch", `{"batch":[{"type":"track","userId":"u","event":"E","x":"` + large + `","writeKey":"web-key"}]}`, false, http.StatusOK},
		{"/v1/t", `{"userId":"u","writeKey":"web-key"}`, true, http.StatusBadRequest},
		{"/v1/batch", `{"batch":[{"type":"track","userId":"u"}],"writeKey":"web-key"}`, true, http.StatusBadRequest},
	} {
		in := newIngest(func(c *ingest.Config) { c.Strict = test.strict }, tracking.Source{Name: "web", WriteKey: "web-key"})
		res := in.ask(http.MethodPost, test.path, strings.NewReader(test.body))
		assert.Equal(t, test.status, res.Code, res.Body)
		require.Len(t, in.rejections, 1)
		assert.Equal(t, "web", in.rejections[0].Source)
		assert.Equal(t, "track", in.rejections[0].Type)
		for _, refusal := range in.refusals {
			assert.Equal(t, "web", refusal.Source)
		}
	}
}

// TestKeyInBodyOverridesBearerToken checks that a refused request is listed with the same source as its
// calls, even if a gateway's bearer token is the write key of another source.
func TestKeyInBodyOverridesBearerToken(t *testing.T) {
	in := newIngest(func(c *ingest.Config) { c.Strict = true },
		tracking.Source{Name: "web", WriteKey: "web-key"}, tracking.Source{Name: "gateway", WriteKey: "gateway-key"})
	in.ask(http.MethodPost, "/v1/batch", strings.NewReader(`{"batch":[{"type":"track","userId":"u"}],"writeKey":"web-key"}`), "Authorization: Bearer gateway-key")
	require.Len(t, in.rejections, 1)
	assert.Equal(t, "web", in.rejections[0].Source)
	require.Len(t, in.refusals, 1)
	assert.Equal(t, "web", in.refusals[0].Source)
}
