package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

func TestImportResumes(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("userId,event,timestamp,total\n")
	for i := range 2500 {
		fmt.Fprintf(&rows, "u%d,Order Completed,2024-02-03T04:05:06Z,%d.5\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o600))
	srv := mockserver.RunT(t)
	var bar strings.Builder

	broken := rows.String()[:strings.Index(rows.String(), "u1800")] + "\"\n"
	require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
	sent, err := run(t.Context(), file, file+".progress", srv.URL, "key", &bar)
	require.ErrorContains(t, err, "orders.csv")
	assert.Equal(t, 1800, sent)
	progress, err := os.ReadFile(file + ".progress")
	require.NoError(t, err)
	assert.Equal(t, "1000\n", string(progress), "the last checkpoint")

	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o600))
	sent, err = run(t.Context(), file, file+".progress", srv.URL, "key", &bar)
	require.NoError(t, err)
	assert.Equal(t, 1500, sent)
	assert.Contains(t, bar.String(), "100 %, 2500 rows")

	calls := srv.Calls()
	assert.Len(t, calls, 2500, "each row once")
	users := map[string]bool{}
	for _, c := range calls {
		users[c.UserID] = true
		assert.Equal(t, 2024, c.OriginalTimestamp.Year())
	}
	assert.Len(t, users, 2500)

	sent, err = run(t.Context(), file, file+".progress", srv.URL, "key", &bar)
	require.NoError(t, err)
	assert.Zero(t, sent)
}
