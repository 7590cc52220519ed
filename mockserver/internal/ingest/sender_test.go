package ingest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const webKey = "kYq3Zr81TtwWebSecret"

// post sends a body with a write key.
func post(in *testIngest, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/batch", strings.NewReader(body))
	r.RemoteAddr = "203.0.113.7:4711"
	r.Header.Set("User-Agent", "curl/8.5")
	if key != "" {
		r.SetBasicAuth(key, "")
	}
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	return w
}

func TestRejectionsContainSender(t *testing.T) {
	const batch = `{"context":{"library":{"name":"analytics-node","version":"2.1.0"}},"batch":[{"type":"track","userId":"u"},
		{"type":"track","userId":"u","context":{"library":{"name":"own"}}},{"type":"page","userId":"u"}]}`
	for _, strict := range []bool{false, true} {
		in := newIngest(func(c *ingest.Config) { c.Strict = strict }, tracking.Source{Name: "web", WriteKey: webKey})
		answer := post(in, webKey, batch)
		require.Len(t, in.rejections, 2)
		assert.Equal(t, tracking.Sender{Address: "203.0.113.7", UserAgent: "curl/8.5", Library: "analytics-node 2.1.0"}, in.rejections[0].Sender)
		assert.Equal(t, tracking.Sender{Address: "203.0.113.7", UserAgent: "curl/8.5", Library: "own"}, in.rejections[1].Sender)
		assert.NotContains(t, answer.Body.String(), "203.0.113.7", "the response does not contain the sender")
	}
}

func TestRefusalsContainSenderAndBody(t *testing.T) {
	in := newIngest(nil, tracking.Source{Name: "web", WriteKey: webKey})
	body := `{"batch":[{"type":"track","userId":"u","context":{"library":{"name":"analytics-go","version":"9"}}}], oops`
	assert.Equal(t, http.StatusBadRequest, post(in, webKey, body).Code)
	post(in, "stranger-of-no-source", strings.Replace(body, ", oops", "}", 1))
	require.Len(t, in.refusals, 2)
	for _, refusal := range in.refusals {
		assert.Equal(t, tracking.Sender{Address: "203.0.113.7", UserAgent: "curl/8.5", Library: "analytics-go 9"}, refusal.Sender)
	}
	assert.Equal(t, body, string(in.refusals[0].Body))
}

func TestRefusedBodiesAreRedacted(t *testing.T) {
	const stars = "********************"
	for _, c := range []struct{ name, key, body, want string }{
		{"field of a batch", "", `{"writeKey":"` + webKey + `","batch":[}`, `{"writeKey":"` + stars + `","batch":[}`},
		{"field with an unknown key", "", `{"WriteKey" : "abc","batch":[]`, `{"WriteKey" : "***","batch":[]`},
		{"form", "", `writeKey=abc&batch=[]`, `writeKey=***&batch=[]`},
		{"truncated field", "", `{"writeKey":"abc`, `{"writeKey":"***`},
		{"no value", "", `{"writeKey":`, `{"writeKey":`},
		{"key of a source in another place", "", `{"x":"a` + webKey + `b"`, `{"x":"a` + stars + `b"`},
		{"key from the header", "other-key-of-somebody", `[other-key-of-somebody`, `[*********************`},
		{"short key as a word", "web", `{"a":"web","b":"website"`, `{"a":"***","b":"website"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newIngest(nil, tracking.Source{Name: "web", WriteKey: webKey})
			require.NotEqual(t, http.StatusOK, post(in, c.key, c.body).Code)
			require.Len(t, in.refusals, 1)
			assert.Equal(t, c.want, string(in.refusals[0].Body))
		})
	}
}

func TestTruncatedWriteKeyIsRedacted(t *testing.T) {
	for before := 4096 - len(webKey) - 2; before <= 4096; before++ {
		in := newIngest(nil, tracking.Source{Name: "web", WriteKey: webKey})
		post(in, webKey, strings.Repeat("x", before)+webKey+strings.Repeat("y", 100_000))
		require.Len(t, in.refusals, 1)
		kept := string(in.refusals[0].Body)
		require.Len(t, kept, 4096)
		if strings.Contains(kept, webKey[:1]) {
			t.Fatalf("part of a key that starts at %d is visible: %q", before, kept[before:])
		}
	}
}

func TestRefusalForUnknownPathContainsBody(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
	}{{http.MethodPost, "/v2/batch", http.StatusNotFound}, {http.MethodPut, "/v1/batch", http.StatusMethodNotAllowed}} {
		in := newIngest(nil, tracking.Source{Name: "web", WriteKey: webKey})
		for _, rest := range []string{"", strings.Repeat("y", 100_000)} {
			body := `{"writeKey":"` + webKey + `","batch":[]}` + rest
			res := httptest.NewRecorder()
			in.ServeHTTP(res, httptest.NewRequest(c.method, c.path, strings.NewReader(body)))
			assert.Equal(t, c.status, res.Code)
			kept := strings.Replace(body, webKey, strings.Repeat("*", len(webKey)), 1)
			refusal := in.refusals[len(in.refusals)-1]
			assert.Equal(t, kept[:min(len(kept), 4096)], string(refusal.Body))
		}
	}
}

func TestUserAgentIsTruncated(t *testing.T) {
	in := newIngest(nil)
	r := httptest.NewRequest(http.MethodPost, "/v1/batch", strings.NewReader("oops"))
	r.Header.Set("User-Agent", strings.Repeat("a", 1000)+"\xff")
	in.ServeHTTP(httptest.NewRecorder(), r)
	assert.Equal(t, strings.Repeat("a", 200)+"…", in.refusals[0].Sender.UserAgent)
}

func FuzzRefusedBody(f *testing.F) {
	f.Add([]byte(`{"writeKey":"` + webKey + `"`))
	f.Add([]byte(`{"batch":[{"writeKey":"x"`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in := newIngest(nil, tracking.Source{Name: "web", WriteKey: webKey})
		post(in, "", string(body))
		for _, refusal := range in.refusals {
			if strings.Contains(string(refusal.Body), webKey) || len(refusal.Body) > 4096 {
				t.Fatalf("kept %q", refusal.Body)
			}
		}
	})
}
