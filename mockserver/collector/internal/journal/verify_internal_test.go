package journal

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// someOfAll returns a journal with a destination that has calls in each state: of
// messages 2 to 5 of CALLS, with 300 calls each, the first three have ended but for
// one call each, which waits for a retry, and the last was never tried.
func someOfAll(t *testing.T) *Journal {
	t.Helper()
	j, err := Open(t.Context(), Options{Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, j.Close()) })
	r, err := j.Attach(t.Context(), "crm", nil)
	require.NoError(t, err)
	for n := range 4 {
		calls := make([]tracking.Call, 300)
		for i := range calls {
			id := fmt.Sprintf("m-%d-%d", n, i)
			calls[i] = tracking.Call{Source: "web", ID: id, Body: fmt.Appendf(nil, `{"type":"track","messageId":%q}`, id)}
		}
		require.NoError(t, j.Append(t.Context(), event.Batch{Source: "web", ReceivedAt: time.Now(), Calls: calls}))
	}
	for range 3 * parts(300) {
		l, err := r.Next(t.Context(), journal.Want{})
		require.NoError(t, err)
		result := journal.Result{RetryAt: time.Now().Add(time.Hour), Outcomes: make([]tracking.Outcome, len(l.Entry().Calls))}
		for i := range result.Outcomes {
			result.Outcomes[i].State = tracking.State(min(i, int(tracking.StateFiltered)))
		}
		require.NoError(t, l.Finish(t.Context(), result))
	}
	require.NoError(t, r.Close())
	return j
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	account := func(change func(*book)) func(*testing.T, *Journal) {
		return func(_ *testing.T, j *Journal) { j.account.with("crm", change) }
	}
	for name, test := range map[string]struct {
		do   func(*testing.T, *Journal)
		want string // among the problems; empty: none
	}{
		"nothing is": {func(*testing.T, *Journal) {}, ""},
		"a retry is gone": {func(t *testing.T, j *Journal) {
			require.NoError(t, j.retry.Purge(t.Context(), jetstream.WithPurgeSubject(j.names.subject("at", "crm", "18"))))
		}, "message 2 of CALLS, part 2: attempt 2 is due, but it is not among the retries"},
		"all retries are gone": {func(t *testing.T, j *Journal) {
			require.NoError(t, j.retry.Purge(t.Context()))
		}, "message 4 of CALLS, part 0: attempt 2 is due, but it is not among the retries"},
		"a message was acknowledged that was never tried": {func(t *testing.T, j *Journal) {
			acknowledge(t, j, "crm")
		}, "message 5 of CALLS, part 1: it was never tried, but what is handed out begins after message 5"},
		"the ledger takes a message for tried": {account(func(b *book) {
			b.rise(5)
		}), "message 5 of CALLS, part 0: it was never tried, but the ledger takes all up to message 5 for tried"},
		"the ledger has delivered too many": {account(func(b *book) {
			b.ledger.Delivered++
		}), "the ledger says 1200 = 10 delivered + 9 failed + 873 filtered + 309 pending + 0 lost, and what is stored says 1200 = 9 delivered"},
		"the ledger has accepted too few": {account(func(b *book) {
			b.ledger.Accepted--
		}), "the ledger says 1199 ="},
		"the ledger has forgotten a retry": {account(func(b *book) {
			delete(b.retries, callsRef{3, 1})
		}), "308 pending"},
		"the ledger knows nothing of a destination": {func(_ *testing.T, j *Journal) {
			j.account.mu.Lock()
			defer j.account.mu.Unlock()
			delete(j.account.books, "crm")
		}, "the ledger knows nothing of this destination"},
		"the ledger has a destination too many": {func(_ *testing.T, j *Journal) {
			j.account.mu.Lock()
			defer j.account.mu.Unlock()
			b := newBook("other")
			b.scopes = []scope{{}}
			j.account.books["other"] = b
		}, "the streams know nothing of this destination"},
		"an outcome is about other calls than were to be tried": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &outcome{destination: "crm", attached: 1, ref: callsRef{5, 0}, attempt: 1, delivered: 127})
		}, "message 5 of CALLS, part 0, attempt 1: the outcome is about 127 calls, but 128 were to be tried"},
		"an outcome that comes twice": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &outcome{destination: "crm", attached: 1, ref: callsRef{5, 2}, attempt: 1, delivered: 44})
			writeOutcome(t, j, &outcome{destination: "crm", attached: 1, ref: callsRef{5, 2}, attempt: 1, filtered: 44})
			writeOutcome(t, j, &outcome{destination: "crm", attached: 1, ref: callsRef{2, 0}, attempt: 1, delivered: 128})
		}, ""},
		"outcomes of a destination that was attached anew": {func(t *testing.T, j *Journal) {
			writeOutcome(t, j, &outcome{destination: "crm", attached: 4, ref: callsRef{5, 2}, attempt: 1, delivered: 44})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := someOfAll(t)
			test.do(t, j)
			v := &verifier{journal: j, looks: 1} // what is gone does not come
			all, err := v.verify(t.Context())
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

// acknowledge takes what is not acknowledged of CALLS for a destination, and does so
// without an outcome.
func acknowledge(t *testing.T, j *Journal, destination string) {
	t.Helper()
	consumer, err := j.js.Consumer(t.Context(), j.names.stream(streamCalls), j.names.consumer(destination))
	require.NoError(t, err)
	m, err := consumer.Next()
	require.NoError(t, err)
	require.NoError(t, m.DoubleAck(t.Context()))
}

func writeOutcome(t *testing.T, j *Journal, o *outcome) {
	t.Helper()
	require.NoError(t, (<-j.results.write(o)).err)
}

func TestUntried(t *testing.T) {
	var u untried
	at := time.UnixMilli(1_700_000_000_000)
	sizes := map[uint64]int{}
	seq := uint64(7)
	for i := range 3000 {
		seq += uint64(1 + i%3)
		switch i {
		case 1000:
			seq += 1 << 33 // further than a run can tell
		case 2000:
			at = at.Add(100 * 24 * time.Hour)
		}
		sizes[seq] = 1 + i*37%(partCalls*maxParts)
		u.add(seq, sizes[seq], at.Add(time.Duration(-i)*time.Millisecond))
	}
	type part struct {
		ref   callsRef
		calls int
		at    time.Time
	}
	list := func() (all []part) {
		u.all(func(ref callsRef, calls int, at time.Time) bool {
			all = append(all, part{ref, calls, at})
			return true
		})
		return all
	}
	all := list()
	calls := 0
	for i, p := range all {
		calls += p.calls
		if i > 0 {
			assert.Less(t, all[i-1].ref.number(), p.ref.number())
		}
	}
	want := 0
	for _, n := range sizes {
		want += n
	}
	assert.Equal(t, want, calls)
	assert.Equal(t, time.UnixMilli(1_700_000_000_000), all[0].at)

	for _, ref := range []callsRef{{7, 0}, {1, 0}, {seq + 1, 0}, {all[0].ref.seq, maxParts - 1}} {
		_, ok := u.end(ref)
		assert.False(t, ok, "%v is not there", ref)
	}
	for i, p := range all {
		if i%5 == 4 {
			continue
		}
		n, ok := u.end(p.ref)
		assert.True(t, ok && n == p.calls, "%v has %d calls, and not %d", p.ref, p.calls, n)
		_, ok = u.end(p.ref)
		assert.False(t, ok, "%v has ended", p.ref)
	}
	left := list()
	assert.Len(t, left, len(all)/5)
	for i, p := range left {
		assert.Equal(t, all[5*i+4], p)
		u.end(p.ref)
	}
	assert.Empty(t, u, "all have ended")
}

// The proof must not take memory as if calls came in batches.
func TestUntriedMessagesAreSmall(t *testing.T) {
	const messages = 1 << 18
	var u untried
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range messages {
		u.add(uint64(i), 1, time.UnixMilli(int64(i)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.HeapAlloc-before.HeapAlloc)/messages, 16.)
	_, ok := u.end(callsRef{seq: messages / 2})
	assert.True(t, ok)
}

// BenchmarkVerify proves the ledger of messages of one call that were never tried.
func BenchmarkVerify(b *testing.B) {
	const messages = 1_000_000
	j, err := Open(b.Context(), Options{Dir: b.TempDir(), SyncInterval: time.Minute})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, j.Close()) })
	_, err = j.Attach(b.Context(), "crm", nil)
	require.NoError(b, err)
	js, err := jetstream.New(j.nc, jetstream.WithPublishAsyncMaxPending(256))
	require.NoError(b, err)
	call := appendSegment([]byte{callsFormat}, [][]byte{make([]byte, 500)})
	for i := range messages {
		m := nats.NewMsg(j.names.subject(kindCalls, "web"))
		m.Data = call
		m.Header.Set(headerCalls, "1")
		m.Header.Set(headerIDs, fmt.Sprintf("%032x", i))
		setTime(m.Header, time.Now())
		_, err := js.PublishMsgAsync(m)
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	j.sawCalls(messages + 1)
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		all, err := j.Verify(ctx)
		require.NoError(b, err)
		require.True(b, all[0].OK() && all[0].Pending == messages, "%+v", all[0])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/messages, "ns/message")
}

// The server lists so many retries at a time, and the others from a place on.
func TestAllRetriesAreListed(t *testing.T) {
	j := someOfAll(t)
	var all []string
	require.NoError(t, j.eachStoredRetry(t.Context(), func(destination, number string) {
		all = append(all, destination+" "+number)
	}))
	slices.Sort(all)
	// The parts 0 to 2 of the messages 2 to 4.
	assert.Equal(t, []string{"crm 16", "crm 17", "crm 18", "crm 24", "crm 25", "crm 26", "crm 32", "crm 33", "crm 34"}, all)
	for offset, left := range map[int]int{0: 9, 7: 2, 9: 0, 20: 0} {
		subjects, err := j.retrySubjects(t.Context(), offset)
		require.NoError(t, err)
		assert.Len(t, subjects, left, "from %d on", offset)
	}
}
