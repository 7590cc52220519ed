package mockserver_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestDisabledDestination(t *testing.T) {
	for name, test := range map[string]struct {
		keep              bool
		disabled, enabled tracking.Ledger
	}{
		"filters calls": {disabled: tracking.Ledger{Accepted: 3, Filtered: 3}, enabled: tracking.Ledger{Accepted: 4, Filtered: 3, Delivered: 1}},
		"keeps calls":   {keep: true, disabled: tracking.Ledger{Accepted: 3, Pending: 3}, enabled: tracking.Ledger{Accepted: 4, Delivered: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := hook("d", "http://h/1")
				d.Disabled, d.KeepWhileDisabled = true, test.keep
				srv, _ := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}})
				ledger := func() tracking.Ledger {
					synctest.Wait()
					l := account(t, srv)
					l.Destination = ""
					return l
				}
				send(t, srv, track("m", 3))
				assert.Equal(t, test.disabled, ledger())
				assert.Equal(t, engine.DestinationDisabled, srv.Engine().Status()[0].State)

				d.Disabled = false
				require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
				send(t, srv, track("n", 1))
				assert.Equal(t, test.enabled, ledger())

				d.Disabled = true
				require.NoError(t, srv.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
				send(t, srv, track("o", 1))
				assert.Equal(t, test.keep, ledger().Pending == 1)
			})
		})
	}
}
