package users

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// A notification identifies the call that notifies a destination of a deletion.
type notification struct{ messageID, source, destination string }

// A deletionEnd is the current result of a notification.
type deletionEnd struct {
	tracking.Outcome
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at,omitzero"`
}

// keptReason is the maximum length of a stored reason in bytes.
const keptReason = 150

func newDeletionEnd(e tracking.Ended) deletionEnd {
	o := tracking.Outcome{State: e.State, Reason: text.CutBytes(keptReason, e.Reason)}
	return deletionEnd{o, e.Attempt, e.At.UTC().Truncate(time.Millisecond)}
}

const deletionIDPrefix = "delete-"

// keyOfMessage returns the key of the deletion request that created a messageId. ours reports
// whether there is such a key.
func keyOfMessage(id string) (key string, ours bool) {
	rest, ours := strings.CutPrefix(id, deletionIDPrefix)
	key, _, _ = strings.Cut(rest, "-")
	return key, ours && text.IsDigest(key)
}

// outcomes collects results of notifications until they are stored. It keeps the latest result of
// each notification, grouped by the key of the deletion request.
type outcomes struct {
	mu    sync.Mutex // guards byKey
	byKey map[string]map[notification]deletionEnd
}

func (o *outcomes) add(key string, e tracking.Ended) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byKey[key] == nil {
		o.byKey[key] = map[notification]deletionEnd{}
	}
	o.byKey[key][notification{e.CallID, e.Source, e.Destination}] = newDeletionEnd(e)
}

func (o *outcomes) keys() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.byKey))
}

// of returns the results of a request that are not stored yet.
func (o *outcomes) of(key string) map[notification]deletionEnd {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.byKey[key])
}

// stored removes results that were stored, except results that have changed since.
func (o *outcomes) stored(key string, ended map[notification]deletionEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.byKey[key], func(n notification, end deletionEnd) bool {
		was, ok := ended[n]
		return ok && was == end
	})
	if len(o.byKey[key]) == 0 {
		delete(o.byKey, key)
	}
}
