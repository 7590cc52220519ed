package analytics_test

import (
	"encoding/json"
	"log/slog"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// For a value that JSON does not support, the client returns the same error as encoding/json.
func TestUnsupportedValuesAreErrorsOfEncodingJSON(t *testing.T) {
	client := newClient(t, &collector{}, analytics.Config{})
	enqueue := func(v interface{}) error {
		return client.Enqueue(t.Context(), &analytics.Track{UserId: "u", Event: "e", Properties: map[string]interface{}{"v": v}})
	}
	err := enqueue([]interface{}{math.NaN()})
	require.ErrorAs(t, err, new(*analytics.FieldError))
	require.ErrorAs(t, err, new(*json.UnsupportedValueError))
	err = enqueue(func() {})
	require.ErrorAs(t, err, new(*analytics.FieldError))
	require.ErrorAs(t, err, new(*json.UnsupportedTypeError))
	for title, a := range map[string]slog.Attr{
		"float":    slog.Float64("v", math.NaN()),
		"in group": slog.Group("g", slog.Float64("v", math.Inf(1))),
		"any":      slog.Any("v", []float64{math.NaN()}),
	} {
		t.Run("attribute, "+title, func(t *testing.T) {
			err := client.Enqueue(t.Context(), &analytics.Track{UserId: "u", Event: "e", Attrs: []slog.Attr{a}})
			require.ErrorAs(t, err, new(*json.UnsupportedValueError))
		})
	}
	require.NoError(t, client.Close())
}
