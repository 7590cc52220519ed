package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal/journaltest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// mixedJournal returns a journal with a destination and the messages 2 to 5 of CALLS. Each message
// contains 300 calls. The calls of the first three messages are finished, except one call in each
// message that waits for a retry. The calls of the last message are unattempted.
func mixedJournal(t *testing.T) *Journal {
	t.Helper()
	j, err := Open(within(t), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	<-j.previous.tried // no retry is restored after the first attempt at recovery
	r, err := j.Attach(within(t), "crm", nil)
	require.NoError(t, err)
	for n := range 4 {
		calls := make([]tracking.Call, 300)
		for i := range calls {
			id := fmt.Sprintf("m-%d-%d", n, i)
			calls[i] = tracking.Call{Source: "web", ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
		}
		require.NoError(t, j.Append(within(t), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
	}
	for range 3 * record.Parts(300) {
		l, err := r.Next(within(t), journal.Want{})
		require.NoError(t, err)
		result := journal.Result{RetryAt: time.Now().Add(time.Hour), Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
		for i := range result.Outcomes {
			result.Outcomes[i].State = tracking.State(min(i, int(tracking.StateFiltered)))
		}
		require.NoError(t, l.Finish(within(t), result))
	}
	return j
}

// TestVerifyWaitsForRestoredRetries checks that Verify waits until a retry is restored, if the
// previous process was killed before it had scheduled the retry.
func TestVerifyWaitsForRestoredRetries(t *testing.T) {
	j := mixedJournal(t)
	require.NoError(t, j.JS.Purge(within(t), j.Names.Stream(record.StreamRetry), "", 0))
	j.previous.tried = make(chan struct{})
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err := j.Verify(soon)
	require.ErrorContains(t, err, "the work of the previous process is not completed yet")
	require.NoError(t, j.settleRetries(within(t)))
	close(j.previous.tried)
	all, err := j.Verify(within(t))
	require.NoError(t, err)
	assert.True(t, all[0].OK(), "%+v", all)
}

// TestWaitsForLocksEndWithTheContext checks that operations stop waiting for a lock when their context ends.
func TestWaitsForLocksEndWithTheContext(t *testing.T) {
	cleanTimers()
	defer cleanTimers()
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := failingStreams(t)
		calls := journaltest.Calls("web", "m", 1)
		for name, c := range map[string]struct {
			lock *pause.Lock
			wait func(context.Context) error
		}{
			"Verify": {&j.trimmer.running, func(ctx context.Context) error { _, err := j.Verify(ctx); return err }},
			"Trim":   {&j.trimmer.running, j.Trim},
			"Replay": {&j.replays.running, func(ctx context.Context) error { return j.Replay(ctx, "crm", calls, nil, tracking.StateFailed) }},
		} {
			why := errors.New("enough")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
			c.lock.Lock()
			assert.ErrorIs(t, c.wait(ctx), why, name)
			c.lock.Unlock()
			cancel()
		}
	})
}

func TestVerifyFindsDifferences(t *testing.T) {
	account := func(change func(*ledger.Account)) func(*testing.T, *Journal) {
		return func(_ *testing.T, j *Journal) { j.ledger.With("crm", change) }
	}
	for name, test := range map[string]struct {
		do   func(*testing.T, *Journal)
		want string // part of a problem; empty if there is no problem
	}{
		"no difference": {func(*testing.T, *Journal) {}, ""},
		"missing retry": {func(t *testing.T, j *Journal) {
			require.NoError(t, j.JS.Purge(within(t), j.Names.Stream(record.StreamRetry), j.Names.Subject("at", "crm", "18"), 0))
		}, "message 2 of CALLS, part 2: attempt 2 is pending, but it is missing in RETRY"},
		"no retries": {func(t *testing.T, j *Journal) {
			require.NoError(t, j.JS.Purge(within(t), j.Names.Stream(record.StreamRetry), "", 0))
		}, "message 4 of CALLS, part 0: attempt 2 is pending, but it is missing in RETRY"},
		"acknowledged unattempted message": {func(t *testing.T, j *Journal) {
			acknowledge(t, j, "crm")
		}, "message 5 of CALLS, part 1: it was never attempted, but delivery continues after message 5"},
		"wrong floor": {func(_ *testing.T, j *Journal) {
			j.ledger.Advance("crm", 1, 5)
		}, "message 5 of CALLS, part 0: it was never attempted, but according to the ledger all messages up to 5 were"},
		"too many delivered": {account(func(a *ledger.Account) {
			a.Totals.Delivered++
		}), "the ledger contains 1200 = 10 delivered + 9 failed + 873 filtered + 309 pending + 0 lost, but the stored data contains 1200 = 9 delivered"},
		"too few accepted": {account(func(a *ledger.Account) {
			a.Totals.Accepted--
		}), "the ledger contains 1199 ="},
		"retry missing in the ledger": {account(func(a *ledger.Account) {
			delete(a.Retries, record.Ref{Seq: 3, Part: 1})
		}), "308 pending"},
		"destination missing in the ledger": {func(_ *testing.T, j *Journal) {
			read, _ := j.ledger.Position()
			j.ledger.ReadCalls(&record.Calls{Seq: read + 1, Kind: record.KindDetach, Name: "crm"})
		}, "this destination is missing in the ledger"},
		"unknown destination in the ledger": {func(_ *testing.T, j *Journal) {
			read, _ := j.ledger.Position()
			j.ledger.ReadCalls(&record.Calls{Seq: read + 1, Kind: record.KindAttach, Name: "other"})
		}, "this destination is missing in the stored data"},
		"outcome with a wrong number of calls": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 5, Part: 0}, Attempt: 1, Delivered: 127})
		}, "message 5 of CALLS, part 0, attempt 1: the outcome has 127 calls, but 128 were leased"},
		"repeated outcome": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 5, Part: 2}, Attempt: 1, Delivered: 44})
			writeOutcome(t, j, &record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 5, Part: 2}, Attempt: 1, Filtered: 44})
			writeOutcome(t, j, &record.Outcome{Destination: "crm", Attached: 1, Ref: record.Ref{Seq: 2, Part: 0}, Attempt: 1, Delivered: 128})
		}, ""},
		"outcome of an earlier attachment": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &record.Outcome{Destination: "crm", Attached: 4, Ref: record.Ref{Seq: 5, Part: 2}, Attempt: 1, Delivered: 44})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := mixedJournal(t)
			test.do(t, j)
			all, err := j.recount(within(t), 1)
			require.NoError(t, err)
			var problems []string
			for _, one := range all {
				problems = append(problems, one.Problems...)
			}
			found := strings.Join(problems, "\n")
			if test.want == "" {
				assert.Empty(t, found)
				assert.True(t, all[0].OK(), "%+v", all[0])
				return
			}
			assert.Contains(t, found, test.want)
		})
	}
}

// acknowledge acknowledges the unattempted message 5 of CALLS without an outcome. Before that, other
// messages may be delivered for the first time or again.
func acknowledge(t *testing.T, j *Journal, destination string) {
	t.Helper()
	consumer, err := j.JS.Consumer(within(t), j.Names.Stream(record.StreamCalls), j.Names.Consumer(destination))
	require.NoError(t, err)
	for ctx := within(t); ; {
		batch, err := consumer.Fetch(ctx, 1, time.Second)
		require.NoError(t, err)
		for m := range batch.Messages() {
			require.NoError(t, m.AckSync(nats.Context(ctx)))
			about, err := m.Metadata()
			require.NoError(t, err)
			if about.Sequence.Stream == 5 {
				return
			}
		}
		require.NoError(t, ctx.Err())
	}
}

func writeOutcome(t *testing.T, j *Journal, o *record.Outcome) {
	t.Helper()
	_, err := j.queues.Record(o)
	require.NoError(t, err)
}

// BenchmarkVerify verifies unattempted messages of one call each.
func BenchmarkVerify(a *testing.B) {
	const messages = 1_000_000
	j, err := Open(a.Context(), Options{Dir: a.TempDir(), SyncInterval: time.Minute})
	require.NoError(a, err)
	a.Cleanup(func() { assert.NoError(a, j.Close()) })
	_, err = j.Attach(a.Context(), "crm", nil)
	require.NoError(a, err)
	js, err := jetstream.New(j.conns.out, jetstream.WithPublishAsyncMaxPending(256))
	require.NoError(a, err)
	call := record.AppendSegment([]byte{record.CallsFormat}, [][]byte{make([]byte, 500)})
	for i := range messages {
		m := nats.NewMsg(j.Names.Subject(record.KindCalls, "web"))
		m.Data = call
		m.Header.Set(record.HeaderCalls, "1")
		m.Header.Set(record.HeaderIDs, fmt.Sprintf("%032x", i))
		record.SetTime(m.Header, time.Now())
		_, err := js.PublishMsgAsync(m)
		require.NoError(a, err)
	}
	<-js.PublishAsyncComplete()
	j.recordStored(messages + 1)
	ctx, cancel := context.WithTimeout(a.Context(), time.Minute)
	defer cancel()
	a.ReportAllocs()
	a.ResetTimer()
	for range a.N {
		all, err := j.Verify(ctx)
		require.NoError(a, err)
		require.True(a, all[0].OK() && all[0].Pending == messages, "%+v", all[0])
	}
	a.ReportMetric(float64(a.Elapsed().Nanoseconds())/float64(a.N)/messages, "ns/message")
}

func TestEachRetry(t *testing.T) {
	j := mixedJournal(t)
	var all []string
	require.NoError(t, j.EachRetry(within(t), func(destination, number string) {
		all = append(all, destination+" "+number)
	}))
	slices.Sort(all)
	// The numbers are the parts 0 to 2 of the messages 2 to 4.
	assert.Equal(t, []string{"crm 16", "crm 17", "crm 18", "crm 24", "crm 25", "crm 26", "crm 32", "crm 33", "crm 34"}, all)
}
