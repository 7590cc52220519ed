package service

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// planned returns a configuration with one source. The plan of the source rejects calls without
// a total.
func planned(t *testing.T, source string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"plan.yaml": "track:\n  Paid:\n    properties:\n      total: {type: number, required: true}\n",
		"collector.yaml": fmt.Sprintf("data: %s\nsources: [{name: %s, writeKey: a-write-key, plan: %s, onViolation: reject}]\n",
			dir, source, filepath.Join(dir, "plan.yaml")),
	}
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	c, err := config.Load(filepath.Join(dir, "collector.yaml"))
	require.NoError(t, err)
	return c
}

// TestPlansApplyDuringReload checks that calls of added and removed sources are checked while
// the configuration changes.
func TestPlansApplyDuringReload(t *testing.T) {
	p := newPlans(planned(t, "before"))
	rejects := func(source string) bool {
		call := tracking.Call{Source: source, Type: "track", Event: "Paid", Body: []byte(`{"type":"track","event":"Paid","properties":{}}`)}
		return p.Judge(&call, []byte(`{}`)).Reject
	}
	failure := errors.New("the journal is closed")
	for _, err := range []error{failure, nil} {
		require.ErrorIs(t, p.change(planned(t, "after"), func() error {
			assert.True(t, rejects("before"))
			assert.True(t, rejects("after"))
			return err
		}), err)
		assert.Equal(t, err != nil, rejects("before"), "after %v", err)
		assert.Equal(t, err == nil, rejects("after"), "after %v", err)
	}
}
