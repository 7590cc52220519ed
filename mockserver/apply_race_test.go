package mockserver_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// The test requests every page and resource, with an open event stream, while
// destinations are changed, paused, removed and recreated, and calls are delivered.
func TestPagesAndAPIDuringApplyConcurrentSafe(t *testing.T) {
	srv := run(t, "stays", "changes")
	ctx := within(t)
	post(t, srv.URL+"/v1/batch", "key", track("m", 2))
	made, err := srv.Engine().Users().StartSync(ctx, users.SyncRequest{Kind: users.KindAudience, Name: "A", Source: "web", Destination: "stays", List: strings.NewReader("u1")})
	require.NoError(t, err)
	computations, err := srv.Engine().Users().Computations(ctx)
	require.NoError(t, err)
	_, err = srv.Engine().Users().DeleteUsers(ctx, users.DeletionRequest{ID: "d1", UserIDs: []string{"u2"}})
	require.NoError(t, err)
	_, err = srv.Wait(ctx, 1, mockserver.WithID("m-0"), mockserver.DeliveredTo("stays"))
	require.NoError(t, err)
	_, page := get(t, srv.URL+"/")
	ref := find(t, page, `data-ref="([0-9a-f]+)"`)

	client := srv.Client()
	done := make(chan struct{})
	var asking sync.WaitGroup
	again := func(ask func()) {
		asking.Go(func() {
			for {
				ask()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for _, path := range []string{
		"/", "/?status=pending", "/calls/" + ref, "/?call=" + ref, "/calls/" + ref + "/body", "/replay", "/destinations", "/destinations/new",
		"/destination?name=changes", "/audiences", "/deletions", "/deletion?id=d1", "/signatures", "/signatures?destination=stays&call=" + ref,
		"/api/v1/health", "/api/v1/ledger", "/api/v1/ledger?verify=true", "/api/v1/sources", "/api/v1/sources/web", "/api/v1/destinations", "/api/v1/destinations/stays",
		"/api/v1/destinations/changes/failed", "/api/v1/calls", "/api/v1/calls?state=pending", "/api/v1/calls/web/m-0", "/api/v1/calls/web/m-0/attempts",
		"/api/v1/rejections", "/api/v1/deletions", "/api/v1/deletions/d1", "/api/v1/deletions/d1/outcomes", "/api/v1/computations",
		"/api/v1/computations/" + computations[0].ID, "/api/v1/syncs/" + made.ID,
	} {
		again(func() {
			res, err := client.Get(srv.URL + path)
			if !assert.NoError(t, err) {
				return
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			assert.Equal(t, http.StatusOK, res.StatusCode, "%s: %s", path, body)
		})
	}
	s := openStream(t, srv.URL+"/stream?status=pending&call="+ref)
	again(func() { s.next() })
	again(func() { serve(srv.Engine(), http.MethodPost, "/v1/batch", track("n", 3)) })
	again(func() {
		_, _ = srv.Engine().Replay(t.Context(), "stays", engine.Selection{State: tracking.StateDelivered})
	})
	again(func() { _, _ = srv.Engine().Status(), srv.Engine().Settings() })

	applied := srv.Engine().Settings()
	for i := range 40 {
		changed := settings.Settings{Sources: applied.Sources, Destinations: hooks("stays", "changes", "comes-and-goes")[:2+i%2]}
		if i/2%2 == 0 {
			changed.Destinations[1].Sources = []string{"web"}
		}
		require.NoError(t, srv.Engine().Apply(t.Context(), changed))
		require.NoError(t, srv.Pause(t.Context(), "changes"))
		require.NoError(t, srv.Resume(t.Context(), "changes"))
	}
	close(done)
	asking.Wait()
}
