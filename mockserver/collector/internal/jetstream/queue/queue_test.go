package queue_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	natsjetstream "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/queue"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// oneCall opens a journal that has one call for a destination, as message 2 of CALLS.
func oneCall(ctx context.Context, t *testing.T, dir string) (*jetstream.Journal, *queue.Queue, journal.Reader) {
	t.Helper()
	j, err := jetstream.Open(ctx, jetstream.Options{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	r, err := j.Attach(ctx, "crm", nil)
	require.NoError(t, err)
	require.NoError(t, j.Append(ctx, event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "m", 1)}))
	return j, queue.Of(r), r
}

// A message may come again, on the same way or another, while what it is about ends.
func TestWhatEndsWhileItComesAgainIsNotHandedOutAgain(t *testing.T) {
	for name, come := range map[string]func(t *testing.T, q *queue.Queue, calls, retry *natsjetstream.RawStreamMsg){
		"in its turn": func(_ *testing.T, q *queue.Queue, calls, _ *natsjetstream.RawStreamMsg) { q.ComeInTurn(calls) },
		"ahead of others": func(t *testing.T, q *queue.Queue, calls, _ *natsjetstream.RawStreamMsg) {
			assert.NoError(t, q.ComeAhead(calls, "web"))
		},
		"for a retry": func(_ *testing.T, q *queue.Queue, _, retry *natsjetstream.RawStreamMsg) { q.ComeAsRetry(retry) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			j, q, r := oneCall(ctx, t, t.TempDir())
			calls, err := q.Stored(ctx, 2)
			require.NoError(t, err)
			next, err := r.Next(ctx, journal.Want{})
			require.NoError(t, err)
			var again *natsjetstream.RawStreamMsg
			if name == "for a retry" {
				require.NoError(t, next.Finish(ctx, journal.Result{RetryAt: time.Now(), Outcomes: make([]tracking.Outcome, 1)}))
				next, err = r.Next(ctx, journal.Want{})
				require.NoError(t, err)
				number := strconv.FormatUint(record.Ref{Seq: calls.Sequence}.Number(), 10)
				again, err = j.JS.Last(ctx, j.Names.Stream(record.StreamRetry), j.Names.Subject("due", record.Token("crm"), number))
				require.NoError(t, err)
			}
			delivered := journal.Result{Outcomes: []tracking.Outcome{{State: tracking.StateDelivered}}}
			items, counted := q.EndWhile(next, delivered, func() { come(t, q, calls, again) })
			assert.True(t, counted)
			assert.Zero(t, items, "what is to be done")
		})
	}
}
