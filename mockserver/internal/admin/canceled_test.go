package admin_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/admin"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// TestCanceledRequestIsNotLogged checks that a request whose client disconnects while it waits is
// not logged as a failure.
func TestCanceledRequestIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := engine.New(engine.Config{
			AnyWriteKey: true, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Messages: true,
		})
		require.NoError(t, err)
		defer c.Close()
		ctx, disconnect := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/expect", strings.NewReader(`{"within":"5m","expect":[{"event":"Paid"}]}`))
		r.Header.Set("Content-Type", "application/json")
		began := time.Now()
		time.AfterFunc(time.Minute, disconnect)
		response := httptest.NewRecorder()
		admin.New(c, "").ServeHTTP(response, r)
		assert.Equal(t, time.Minute, time.Since(began), "the request waits until the client disconnects: %s", response.Body)
		assert.Empty(t, log.String())
	})
}
