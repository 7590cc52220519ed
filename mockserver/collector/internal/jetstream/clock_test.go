package jetstream_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// failAhead appends two calls and schedules a retry of each after ten minutes. It then sets the
// clock back.
func failAhead(t *testing.T, j *jetstream.Journal, r journal.Reader, step time.Duration) {
	t.Helper()
	for range 2 {
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now().Add(step), Calls: journaltest.Calls("web", "m", 1)}))
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		again := journal.Result{Outcomes: make([]tracking.Outcome, 1), RetryAt: time.Now().Add(10 * time.Minute)}
		require.NoError(t, j.FinishAhead(within(t), l, again, step))
		require.NoError(t, l.Finish(within(t), again)) // ends the lease; the result is ignored
	}
}

func TestRetriesAreDueAfterClockStepsBack(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, 24 * time.Hour, 2 * 365 * 24 * time.Hour} {
		for name, next := range map[string]func(t *testing.T, j *jetstream.Journal, dir string) *jetstream.Journal{
			"while it runs": func(t *testing.T, j *jetstream.Journal, _ string) *jetstream.Journal {
				require.NoError(t, j.RescheduleAhead(within(t)))
				return j
			},
			"over a stop": func(t *testing.T, j *jetstream.Journal, dir string) *jetstream.Journal {
				require.NoError(t, j.Close())
				return open(t, jetstream.Options{Dir: dir})
			},
			"over a kill": func(t *testing.T, _ *jetstream.Journal, dir string) *jetstream.Journal { return reopen(t, dir) },
		} {
			t.Run(step.String()+" "+name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				j := open(t, jetstream.Options{Dir: dir})
				failAhead(t, j, attach(t, j, "crm"), step)
				j = next(t, j, dir)
				work(t, attach(t, j, "crm"), 2, delivered)
				wantSums(t, verified(t, j, "crm"), "2 = 2 + 0 + 0 + 0")
			})
		}
	}
}

func TestRetriesKeepTheirTimeWithoutClockStep(t *testing.T) {
	j := open(t, jetstream.Options{Dir: t.TempDir()})
	r := attach(t, j, "crm")
	failAhead(t, j, r, 0)
	require.NoError(t, j.RescheduleAhead(within(t)))
	require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: journaltest.Calls("web", "fresh", 1)}))
	l, err := r.Next(within(t), journal.Want{})
	require.NoError(t, err)
	assert.Equal(t, 1, l.Entry().Attempt)
}
