package e2e

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
)

// TestTransformSurvivesKills kills a collector at random under load while it delivers transformed calls. It
// checks that every call arrives, that each body is the result of the program, and that the ledger
// counts each call once.
func TestTransformSurvivesKills(t *testing.T) {
	t.Parallel()
	kills := full(t, "COLLECTOR_TRANSFORM_KILLS", 3)
	random := rand.New(rand.NewPCG(3, uint64(kills)))
	var mu sync.Mutex // guards got and wrong
	got, wrong := map[string]int{}, 0
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			Key  string
			Kind string
			Type string // removed by the program
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		defer mu.Unlock()
		if id := r.Header.Get("X-Message-Id"); err != nil || body.Key != id || body.Kind != "track/1" || body.Type != "" {
			wrong++
		} else {
			got[id]++
		}
	}))
	t.Cleanup(receiver.Close)
	path, address := configure(t, t.TempDir(), "data: data",
		"- {name: crm, transform: '{key: .messageId, kind: (.type + \"/1\")}', webhooks: [{url: '"+receiver.URL+"'}]}\n")
	c := serve(t, path, address, nil)
	load := &harness.Load{URLs: []string{c.URL}, WriteKey: writeKey, Senders: 4, Batch: 10, Rate: 750}
	stop := send(t, load)
	for kill := range kills {
		time.Sleep(time.Duration(300+random.IntN(400)) * time.Millisecond) // until a random moment
		c.Kill()
		c = serve(t, path, address, nil)
		t.Logf("kill %d: %d calls sent", kill+1, load.Sent.Load())
	}
	stop()

	l := settled(t, c)["crm"]
	assert.Equal(t, load.Sent.Load(), l.Accepted)
	assert.Equal(t, l.Accepted, l.Delivered, "%+v", l)
	mu.Lock()
	defer mu.Unlock()
	assert.Zero(t, wrong, "bodies that are not the result of the program")
	assert.Len(t, got, int(l.Accepted))
	verify(t, c)
	assert.NoError(t, c.Stop(), "it ends gracefully")
}
