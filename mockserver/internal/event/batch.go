package event

import (
	"crypto/sha256"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/tracecontext"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A Batch is what one request brought for one source: the unit of storage.
type Batch struct {
	Source     string
	ReceivedAt time.Time
	RetryCount int // how many requests with the batch came before, as this one says by X-Retry-Count; not stored
	Calls      []tracking.Call
	Trace      *tracecontext.Context // that of the request; nil where it had none
}

// Size returns the bytes of the calls' bodies.
func (b Batch) Size() int {
	n := 0
	for i := range b.Calls {
		n += len(b.Calls[i].Body)
	}
	return n
}

// Key names a call: its source and its messageId.
type Key [16]byte

// KeyOf names the call of a source and a messageId.
func KeyOf(source, id string) Key {
	var short [192]byte // what fits costs no allocation
	text := append(append(append(short[:0], source...), 0), id...)
	sum := sha256.Sum256(text)
	return Key(sum[:16])
}

// KeysOf names the calls of a batch, in their order.
func KeysOf(b Batch) []Key {
	hashes := make([]Key, len(b.Calls))
	for i := range b.Calls {
		hashes[i] = KeyOf(b.Calls[i].Source, b.Calls[i].ID)
	}
	return hashes
}
