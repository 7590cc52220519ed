package mockserver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
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
