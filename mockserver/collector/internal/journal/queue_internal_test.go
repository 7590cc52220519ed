package journal

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
)

// TestWhatComesAgainWhileItEnds has an entry come again, as all that is at work does from
// a server that was started again, just when its outcome is stored and it is forgotten.
func TestWhatComesAgainWhileItEnds(t *testing.T) {
	for attempt, name := range []string{"at first", "as a retry"} {
		t.Run(name, func(t *testing.T) {
			j, err := Open(t.Context(), Options{Dir: t.TempDir()})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, j.Close()) })
			r, err := j.Attach(t.Context(), "crm", nil)
			require.NoError(t, err)
			calls := []mockserver.Call{{Source: "web", ID: "m", Body: []byte(`{"type":"track","messageId":"m"}`)}}
			require.NoError(t, j.Append(t.Context(), mockserver.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
			end := func(state mockserver.State) mockserver.Result {
				return mockserver.Result{Outcomes: []mockserver.Outcome{{State: state}}, RetryAt: time.Now()}
			}
			for range attempt {
				l, err := r.Next(t.Context(), mockserver.Want{})
				require.NoError(t, err)
				require.NoError(t, l.Finish(t.Context(), end(mockserver.StatePending)))
			}
			next, err := r.Next(t.Context(), mockserver.Want{})
			require.NoError(t, err)
			l := next.(*lease)
			o, _ := l.outcome(end(mockserver.StateDelivered))
			q, it := l.queue, l.item
			raw, err := j.calls.GetMsg(t.Context(), it.ref.seq)
			require.NoError(t, err)
			again := func() {
				q.gotCalls(context.Background(), &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, raw.Sequence, 0)
			}
			if it.parcel == nil {
				again = func() { q.gotRetry(context.Background(), &nats.Msg{Data: encodeRetry(it)}, 0, 0) }
			}

			q.mu.Lock()
			came := make(chan struct{})
			go func() {
				defer close(came)
				again()
			}()
			state := <-j.results.write(o) // meanwhile what has come waits for the queue
			delete(q.items, it.ref)       // as drop does
			delete(q.parcels, it.ref.seq)
			q.mu.Unlock()
			<-came
			require.NoError(t, state.err)
			assert.Empty(t, q.items, "it is handed out again")
		})
	}
}
