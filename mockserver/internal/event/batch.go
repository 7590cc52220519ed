package event

import (
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Batch is what one request brought for one source: the unit of storage.
type Batch struct {
	Source     string
	ReceivedAt time.Time
	Calls      []tracking.Call
}

// Size returns the bytes of the calls' bodies.
func (b Batch) Size() int {
	n := 0
	for i := range b.Calls {
		n += len(b.Calls[i].Body)
	}
	return n
}
