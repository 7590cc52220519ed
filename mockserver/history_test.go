package mockserver_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestHistoryTakesWhatEndedBeforeItWasAccepted(t *testing.T) {
	h := mockserver.NewHistory(3)
	call := func(i int) mockserver.Call { return mockserver.Call{Source: "s", ID: fmt.Sprint(i)} }
	ended := func(i int) mockserver.Ended {
		return mockserver.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d", At: time.Now(), Outcome: mockserver.Outcome{State: mockserver.StateDelivered}}
	}
	for i := range 2000 {
		h.Ended(ended(i)) // of calls that it will never hear of
	}
	for i := 3000; i < 3005; i++ {
		h.Attempted(mockserver.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
		h.Ended(ended(i))
		h.Accepted(mockserver.Batch{Source: "s", Calls: []mockserver.Call{call(i)}})
	}
	records := h.Records(nil)
	assert.Len(t, records, 3)
	for _, r := range records {
		state, decided := r.State("d")
		assert.True(t, decided)
		assert.Equal(t, mockserver.StateDelivered, state.State)
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
	h := mockserver.NewHistory(0)
	h.LimitBytes(8 << 20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	large := strings.Repeat("x", 8<<10)
	const n = 5_000
	for i := range n {
		id := fmt.Sprint(i)
		h.Accepted(mockserver.Batch{Source: "s", Calls: []mockserver.Call{{Source: "s", ID: id, Body: []byte(`{"a":"` + large + `"}`)}}})
		for attempt := range 3 {
			h.Attempted(mockserver.Attempt{Source: "s", CallID: id, Destination: "d", Attempt: webhook.Attempt{RequestBody: []byte(large), ResponseBody: []byte("no")}})
			h.Ended(mockserver.Ended{Source: "s", CallID: id, Destination: "d", Attempt: attempt})
		}
		h.Rejected(mockserver.Rejection{Source: "s", Body: []byte(large)})
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
			h := mockserver.NewHistory(0)
			h.LimitBytes(4 << 20)
			const calls, attempts = 1_100, 8 // more than are remembered as perhaps not yet accepted
			for i := range calls {
				h.Accepted(mockserver.Batch{Source: "s", Calls: []mockserver.Call{{Source: "s", ID: fmt.Sprint(i), Body: []byte("{}")}}})
			}
			before := heap()
			for range attempts {
				for i := range calls {
					h.Attempted(mockserver.Attempt{Source: "s", CallID: fmt.Sprint(i), Destination: "d", Attempt: attempt()})
					h.Ended(mockserver.Ended{Source: "s", CallID: fmt.Sprint(i), Destination: "d"})
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
