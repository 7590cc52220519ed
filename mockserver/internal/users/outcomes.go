package users

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/digest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A notification is one at a destination.
type notification struct{ messageID, source, destination string }

// A deletionEnd is what became of a notification, so far.
type deletionEnd struct {
	tracking.Outcome
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// keptReason is how many bytes of an outcome's reason are kept.
const keptReason = 150

func newDeletionEnd(e tracking.Ended) deletionEnd {
	o := tracking.Outcome{State: e.State, Reason: text.CutBytes(keptReason, e.Reason)}
	return deletionEnd{o, e.Attempt, e.At.UTC().Truncate(time.Millisecond)}
}

const deletionIDPrefix = "delete-"

// keyOfMessage returns the key of the request whose notification has a messageId.
func keyOfMessage(id string) (key string, ours bool) {
	rest, ours := strings.CutPrefix(id, deletionIDPrefix)
	key, _, _ = strings.Cut(rest, "-")
	return key, ours && digest.Valid(key)
}

// outcomes gathers those of notifications, until they are stored.
type outcomes struct {
	following sync.WaitGroup
	wake      chan struct{} // holds one token while there are outcomes to store; never closed
	done      chan struct{} // closed by EndOutcomes

	mu      sync.Mutex // guards pending
	pending map[notification]deletionEnd
}

func newOutcomes() *outcomes {
	return &outcomes{wake: make(chan struct{}, 1), done: make(chan struct{}), pending: map[notification]deletionEnd{}}
}

// observe takes the outcomes of notifications. There is one for each that waits to be
// stored, the latest.
func (o *outcomes) observe(event event.Event) {
	e, ok := event.(tracking.Ended)
	if !ok {
		return
	}
	if _, ours := keyOfMessage(e.CallID); !ours {
		return
	}
	o.mu.Lock()
	o.pending[notification{e.CallID, e.Source, e.Destination}] = newDeletionEnd(e)
	o.mu.Unlock()
	o.rouse()
}

func (o *outcomes) rouse() {
	select {
	case o.wake <- struct{}{}:
	default: // they will be looked at anyway
	}
}

// byKey returns the outcomes that wait to be stored, by the keys of their requests.
func (o *outcomes) byKey() map[string]map[notification]deletionEnd {
	o.mu.Lock()
	defer o.mu.Unlock()
	byKey := map[string]map[notification]deletionEnd{}
	for n, end := range o.pending {
		key, _ := keyOfMessage(n.messageID)
		if byKey[key] == nil {
			byKey[key] = map[notification]deletionEnd{}
		}
		byKey[key][n] = end
	}
	return byKey
}

// forget drops outcomes that are stored, but for those that others have overtaken.
func (o *outcomes) forget(stored map[notification]deletionEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.pending, func(n notification, end deletionEnd) bool {
		was, ok := stored[n]
		return ok && was == end
	})
}
