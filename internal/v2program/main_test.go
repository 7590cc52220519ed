package v2program

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

func TestProgram(t *testing.T) {
	var mu sync.Mutex
	var bodies [][]byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		key, password, _ := r.BasicAuth()
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/batch" || key != "v2-key" || password != "" {
			http.Error(w, "not a batch", http.StatusNotFound)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, b)
	}))
	defer srv.Close()
	t.Setenv("COLLECTOR", srv.URL)
	t.Setenv("WRITE_KEY", "v2-key")

	program()

	require.Len(t, bodies, 1)
	var batch analytics.Batch
	require.NoError(t, json.Unmarshal(bodies[0], &batch))
	require.NotEmpty(t, batch.MessageId)
	require.NotEmpty(t, batch.SentAt)
	require.Contains(t, batch.Context, "library")
	require.Contains(t, batch.Context, "app")
	require.Len(t, batch.Messages, 5)
	for i, kind := range []string{"identify", "track", "page", "group", "alias"} {
		call := batch.Messages[i].(map[string]interface{})
		require.Equal(t, kind, call["type"])
		require.NotEmpty(t, call["messageId"])
		require.NotEmpty(t, call["timestamp"])
	}
	download := batch.Messages[1].(map[string]interface{})
	require.Equal(t, "download-1", download["messageId"])
	require.Equal(t, "2015-07-11T00:43:38.000Z", download["timestamp"])
	group := batch.Messages[3].(map[string]interface{})
	require.Equal(t, "group-call-1", group["messageId"])
	require.Equal(t, "2015-07-11T00:43:38.123Z", group["timestamp"])
}
