package engine_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestStatusMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := newCollector(t, engine.Config{
			Destinations: []tracking.Destination{hook("crm")}, Concurrency: 1,
			WrapTransport: func(http.RoundTripper) http.RoundTripper {
				return receiver(func(*http.Request) error {
					time.Sleep(100 * time.Millisecond)
					if n++; n == 1 {
						return errors.New("broken")
					}
					return nil
				})
			},
		})
		send(t, c, "m", 4)
		time.Sleep(time.Minute)
		m := c.Status()[0].Measures
		assert.EqualValues(t, 5, m.Hour.Attempts, "four calls, one of them twice")
		assert.EqualValues(t, 1, m.Hour.Failed)
		assert.InDelta(t, 100, float64(m.Hour.P50)/1e6, 10)
		require.NotNil(t, m.LastFailure)
		assert.Contains(t, m.LastFailure.Error, "broken")
		require.NoError(t, c.Apply(t.Context(), settings.Settings{}))
		require.NoError(t, c.Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{hook("crm")}}))
		assert.Zero(t, c.Status()[0].Measures.Day.Attempts, "a new destination with the same name")
	})
}
