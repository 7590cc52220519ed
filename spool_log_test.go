package analytics_test

import (
	"log"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
)

// writerFunc is the writer of a log.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// The writer of the log may use the client: no mutex is held while a line is written.
func TestSpoolLogsWithoutALock(t *testing.T) {
	dir := t.TempDir()
	other, err := analytics.NewWithConfig("another-write-key", analytics.Config{Spool: dir, HTTPClient: &http.Client{Transport: newDownCollector()}, Logger: new(lines).logger()})
	require.NoError(t, err)
	track(t, other, "theirs", 1)
	require.Error(t, other.Shutdown(endedContext()))
	synctest.Test(t, func(t *testing.T) {
		var client *analytics.Client
		logged := make(chan string, 10)
		logger := log.New(writerFunc(func(b []byte) (int, error) {
			_ = client.Page(&analytics.Page{UserId: "u"})
			_ = client.Stats()
			logged <- string(b)
			return len(b), nil
		}), "", 0)
		client = newClient(t, &collector{}, analytics.Config{Spool: dir, Logger: logger})
		track(t, client, "e", 1)
		require.Contains(t, <-logged, "has 1 files of another write key")
		require.NoError(t, os.RemoveAll(dir))
		time.Sleep(2 * time.Second) // the directory is looked at once a second
		track(t, client, "e", 1)
		require.Contains(t, <-logged, "removed while calls were written to it")
		require.NoError(t, client.Close())
	})
}
