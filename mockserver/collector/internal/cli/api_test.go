package cli

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWaitEndsIfTheCollectorHangs checks that a request without a response extends a wait by grace at most.
func TestWaitEndsIfTheCollectorHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := client{url: "http://127.0.0.1:1", requester: &http.Client{Transport: hangingTransport{}}}
		begin := time.Now()
		_, _, err := c.delivered(t.Context(), "m1", time.Minute)
		require.EqualError(t, err, "http://127.0.0.1:1 did not respond in time")
		assert.Equal(t, time.Minute+grace, time.Since(begin))
	})
}

type hangingTransport struct{}

func (hangingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestCurlSendsHeadersWithoutAValue(t *testing.T) {
	got := curl("", "http://h/", http.Header{"X-Empty": {""}, "X-Team": {"growth"}}, "{}")
	assert.Equal(t, "curl -g http://h/ \\\n  -H 'X-Empty;' \\\n  -H 'X-Team: growth' \\\n  --data-raw '{}'", got)
}

func TestInterruptedWaitNamesWhatContinues(t *testing.T) {
	for args, want := range map[string]string{
		"delete-user u1 --wait 1m":                         "deletion request r1",
		"send page --user-id u1 --message-id m1 --wait 1m": "delivery of the call m1",
		"replay crm": "replay r1",
		"audience sync Spenders --source web --destination crm": "sync r1",
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"success":true,"id":"r1","destinations":[{"name":"crm"}],"calls":[{"messageId":"m1"}]}`)
			if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/destinations") {
				interrupt()
			}
		}))
		t.Cleanup(srv.Close)
		var errOut bytes.Buffer
		code := Main(ctx, append(strings.Fields(args), "--url", srv.URL), strings.NewReader("u1\n"), io.Discard, &errOut)
		assert.Equal(t, 1, code)
		assert.Equal(t, "collector: stopped waiting; "+want+" continues in the collector\n", errOut.String())
	}
}
