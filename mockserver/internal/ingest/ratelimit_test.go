package ingest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// sendTracks sends a batch of n calls with a write key.
func sendTracks(in *testIngest, writeKey, prefix string, n int) *httptest.ResponseRecorder {
	return in.ask(http.MethodPost, "/v1/batch", strings.NewReader(track(prefix, n)), "Authorization: Bearer "+writeKey)
}

func TestSourceRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIngest(func(c *ingest.Config) { c.Limits.CallsPerSecond = 50 },
			tracking.Source{Name: "slow", WriteKey: "slow-key", CallsPerSecond: 10}, tracking.Source{Name: "usual", WriteKey: "usual-key"})
		assert.Equal(t, http.StatusOK, sendTracks(in, "slow-key", "a", 40).Code, "a batch larger than the bucket is admitted")
		res := sendTracks(in, "slow-key", "b", 1)
		assert.Equal(t, http.StatusTooManyRequests, res.Code)
		assert.Equal(t, "4", res.Header().Get("Retry-After"), "30 calls in excess, and one more, at 10 per second")
		assert.Equal(t, `source "slow" exceeds its limit of 10 calls per second; send again in 4s`, decode(t, res)["message"])
		assert.Equal(t, http.StatusOK, sendTracks(in, "usual-key", "c", 50).Code, "another source is not limited")
		res = sendTracks(in, "usual-key", "d", 1)
		assert.Equal(t, http.StatusTooManyRequests, res.Code)
		assert.Equal(t, "1", res.Header().Get("Retry-After"))

		time.Sleep(4 * time.Second)
		assert.Equal(t, http.StatusOK, sendTracks(in, "slow-key", "b", 1).Code)
		assert.Len(t, in.Stored(), 91)
		assert.Len(t, in.refusals, 2)
	})
}

// TestRefusalNamesTheLimitedSource checks a request with calls of several sources.
func TestRefusalNamesTheLimitedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIngest(nil, tracking.Source{Name: "usual", WriteKey: "usual-key"}, tracking.Source{Name: "slow", WriteKey: "slow-key", CallsPerSecond: 1})
		sendTracks(in, "slow-key", "m", 2)
		const call = `{"type":"track","event":"E","userId":"u","writeKey":"%s"}`
		res := in.ask(http.MethodPost, "/v1/batch", strings.NewReader(fmt.Sprintf(`{"batch":[`+call+`,`+call+`]}`, "usual-key", "slow-key")), "Authorization: Bearer usual-key")
		assert.Equal(t, http.StatusTooManyRequests, res.Code)
		require.Len(t, in.refusals, 1)
		assert.Equal(t, "slow", in.refusals[0].Source)
	})
}

// TestRequestWithNewSourcesCounts checks a request for two new sources when all buckets are in use.
func TestRequestWithNewSourcesCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIngest(func(c *ingest.Config) { c.Limits.CallsPerSecond = 1 })
		for i := range 1024 {
			sendTracks(in, fmt.Sprint("other-", i), "m", 2)
		}
		const call = `{"type":"track","event":"E","userId":"u","writeKey":"%s"}`
		assert.Equal(t, http.StatusOK, in.post("/v1/batch", fmt.Sprintf(`{"batch":[`+call+`,`+call+`]}`, "a", "b")).Code)
		for _, key := range []string{"a", "b"} {
			assert.Equal(t, http.StatusTooManyRequests, sendTracks(in, key, "n", 1).Code, key)
		}
	})
}

func TestUnlimitedCallsDoNotCountLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := 0
		in := newIngest(func(c *ingest.Config) {
			c.Sources = func() *ingest.SourceTable {
				return ingest.NewSourceTable([]tracking.Source{{Name: "s", WriteKey: "key", CallsPerSecond: limit}}, false, nil)
			}
		})
		for i, n := range []int{10, 0, 10} {
			limit = n
			assert.Equal(t, http.StatusOK, sendTracks(in, "key", fmt.Sprint(i), 5).Code)
			if n == 0 {
				assert.Equal(t, http.StatusOK, sendTracks(in, "key", "many", 2_000).Code)
			}
		}
	})
}
