package mockserver_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestHistoryTakesWhatEndedBeforeItWasAccepted(t *testing.T) {
	h := history.New(3)
	call := func(i int) tracking.Call { return tracking.Call{Source: "s", ID: fmt.Sprint(i)} }
	ended := func(i int) tracking.Ended {
		return tracking.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d", At: time.Now(), Outcome: tracking.Outcome{State: tracking.StateDelivered}}
	}
	for i := range 2000 {
		h.Observe(ended(i)) // of calls that it will never hear of
	}
	for i := 3000; i < 3005; i++ {
		h.Observe(tracking.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
		h.Observe(ended(i))
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{call(i)}}})
	}
	records := h.Records(nil)
	assert.Len(t, records, 3)
	for _, r := range records {
		state, decided := r.State("d")
		assert.True(t, decided)
		assert.Equal(t, tracking.StateDelivered, state.State)
		assert.Len(t, r.Attempts, 1)
	}
	assert.EqualValues(t, 2, h.Forgotten())
	page, more := h.Page(0, 2, nil)
	assert.True(t, more)
	assert.Equal(t, []int64{5, 4}, []int64{page[0].Seq, page[1].Seq})
	page, more = h.Page(4, 2, nil)
	assert.False(t, more)
	assert.EqualValues(t, 3, page[0].Seq)
}

func TestHistoryIsBoundedInBytes(t *testing.T) {
	h := history.New(0)
	h.LimitBytes(8 << 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	large := strings.Repeat("x", 8<<10)
	const n = 5_000
	for i := range n {
		id := fmt.Sprint(i)
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: id, Body: []byte(`{"a":"` + large + `"}`)}}}})
		for attempt := range 3 {
			h.Observe(tracking.Attempt{Source: "s", CallID: id, Destination: "d", Attempt: webhook.Attempt{RequestBody: []byte(large), ResponseBody: []byte("no")}})
			h.Observe(tracking.Ended{Source: "s", CallID: id, Destination: "d", Attempt: attempt})
		}
		h.Observe(tracking.Rejection{Source: "s", Body: []byte(large)})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	records := h.Records(nil)
	assert.EqualValues(t, n-len(records), h.Forgotten())
	assert.Greater(t, len(records), 200, "of about 21 KB each with its attempts")
	assert.Less(t, len(records), 500)
	assert.Equal(t, fmt.Sprint(n-1), records[len(records)-1].Call.ID, "the newest are kept")
	assert.Len(t, records[0].Attempts, 3)
	assert.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
	assert.Less(t, len(h.Rejections()), 200)
	runtime.KeepAlive(h)
}

// TestHistoryStaysWithinItsBytesWhileCallsAreRetried: also when no more calls come,
// which would push the oldest out, and for the calls that are forgotten.
func TestHistoryStaysWithinItsBytesWhileCallsAreRetried(t *testing.T) {
	large := strings.Repeat("x", 4<<10)
	for name, attempt := range map[string]func() webhook.Attempt{
		"bodies": func() webhook.Attempt { return webhook.Attempt{ResponseBody: []byte(large)} },
		"headers": func() webhook.Attempt {
			return webhook.Attempt{ResponseHeader: http.Header{"A": {strings.Clone(large)}}}
		},
		"errors": func() webhook.Attempt { return webhook.Attempt{Error: strings.Clone(large)} },
	} {
		t.Run(name, func(t *testing.T) {
			h := history.New(0)
			h.LimitBytes(4 << 20)
			const calls, attempts = 1_100, 8 // more than are remembered as perhaps not yet accepted
			for i := range calls {
				h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: fmt.Sprint(i), Body: []byte("{}")}}}})
			}
			before := heap()
			for range attempts {
				for i := range calls {
					h.Observe(tracking.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d", Attempt: attempt()})
					h.Observe(tracking.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
				}
			}
			assert.Less(t, int64(heap()-before), int64(16<<20))
			records := h.Records(nil)
			assert.NotEmpty(t, records)
			assert.EqualValues(t, calls-len(records), h.Forgotten())
			runtime.KeepAlive(h)
		})
	}
}

// TestForgottenCallsDoNotComeBackAsNew: also where an older one, which was heard of
// late, is still remembered.
func TestForgottenCallsDoNotComeBackAsNew(t *testing.T) {
	h := history.New(3)
	h.RecordUnknown()
	start := time.Now()
	call := func(id string, second int) tracking.Call {
		return tracking.Call{Source: "s", ID: id, ReceivedAt: start.Add(time.Duration(second) * time.Second)}
	}
	accept := func(c tracking.Call) {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{c}}})
	}
	try := func(c tracking.Call) {
		h.Observe(tracking.Attempt{Source: "s", CallID: c.ID, Destination: "d", Call: &c})
		h.Observe(tracking.Ended{Source: "s", CallID: c.ID, Destination: "d", Attempt: 2, Call: &c})
	}
	accept(call("a", 10))
	accept(call("b", 11))
	try(call("from before", 0))
	accept(call("c", 12))
	accept(call("d", 13)) // a and b have made room
	try(call("a", 10))
	try(call("b", 11))
	var ids []string
	for _, r := range h.Records(nil) {
		ids = append(ids, r.Call.ID)
	}
	assert.Equal(t, []string{"from before", "c", "d"}, ids)
	assert.EqualValues(t, 2, h.Forgotten())
}

// TestOwnCallsPushNoOthersOut: an audience can be larger than the history.
func TestOwnCallsPushNoOthersOut(t *testing.T) {
	h := history.New(10)
	accept := func(typ, id string) {
		h.Observe(event.Accepted{Batch: event.Batch{Source: "s", Calls: []tracking.Call{{Source: "s", ID: id, Type: typ, Body: []byte("{}")}}}})
	}
	for i := range 5 {
		accept("track", fmt.Sprint("sent-", i))
	}
	for i := range 100 {
		accept("identify", fmt.Sprintf("audience-abcdefghijklmnop-1-qrstuvwxyz23%04d", 2222+i%6*1111))
		accept("delete", fmt.Sprint("delete-", i))
		if i == 50 {
			accept("track", "sent-5")
		}
	}
	var ids []string
	var seqs []int64
	for _, r := range h.Records(nil) {
		seqs = append(seqs, r.Seq)
		if r.Call.Type == "track" {
			ids = append(ids, r.Call.ID)
		}
	}
	assert.Equal(t, []string{"sent-0", "sent-1", "sent-2", "sent-3", "sent-4", "sent-5"}, ids)
	assert.Len(t, seqs, 16, "and as many own ones as fit")
	assert.IsIncreasing(t, seqs)
	page, more := h.Page(seqs[10], 8, nil)
	assert.True(t, more)
	for i, r := range page {
		assert.Equal(t, seqs[9-i], r.Seq)
	}
}

// TestRestoredOutcomesGoBeforeThoseOfThisProcess: they are read while it delivers
// already, and by a clock that may have been put back since.
func TestRestoredOutcomesGoBeforeThoseOfThisProcess(t *testing.T) {
	h := history.New(0)
	h.RecordUnknown()
	now := time.Now()
	c := tracking.Call{Source: "s", ID: "m", ReceivedAt: now.Add(-time.Minute)}
	ended := func(at time.Time, attempt int, state tracking.State) tracking.Ended {
		return tracking.Ended{Source: "s", CallID: "m", Destination: "d", At: at, Attempt: attempt, Outcome: tracking.Outcome{State: state}, Call: &c}
	}
	attempt := func(n int) tracking.Attempt {
		return tracking.Attempt{Source: "s", CallID: "m", Destination: "d", Call: &c, Attempt: webhook.Attempt{Number: n, RequestBody: []byte("{}")}}
	}
	h.Observe(attempt(3))
	h.Observe(ended(now, 3, tracking.StateDelivered))
	before, _ := h.Find("s", "m")
	for n := 1; n <= 2; n++ {
		h.Restore(attempt(n))
		h.Restore(ended(now.Add(time.Hour), n, tracking.StatePending))
	}
	r, ok := h.Find("s", "m")
	assert.True(t, ok)
	state, _ := r.State("d")
	assert.Equal(t, tracking.StateDelivered, state.State)
	for i, a := range r.Attempts {
		assert.Equal(t, i+1, a.Number)
		assert.Equal(t, i+1, r.Ends[i].Attempt)
	}
	assert.Len(t, r.Attempts, 3)
	assert.Equal(t, 3, before.Attempts[0].Number, "what was returned before stays as it is")
}
