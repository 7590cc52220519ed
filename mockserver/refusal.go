package mockserver

import (
	"cmp"
	"net/http"
	"strings"
	"time"
)

// A Refusal is a request to the tracking API that was refused as a whole.
type Refusal struct {
	At      time.Time `json:"at"`
	Path    string    `json:"path"`   // its first 200 characters, without a write key
	Status  int       `json:"status"` // of the answer
	Code    Code      `json:"code"`
	Message string    `json:"message"` // what was wrong and what would be right
}

// pathOf returns the path of a request as it may be kept and shown: without the
// write key that the path of a project has.
func pathOf(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if before, rest, ok := strings.Cut(path, "projects/"); ok {
		key, after, _ := strings.Cut(rest, "/")
		path = strings.TrimSuffix(before+"projects/"+redact(key)+"/"+after, "/")
	}
	return cut(keptPath, cmp.Or(path, "/"))
}

// keptRefusals is how many refusals a History keeps.
const keptRefusals = 1000

// keptPath is how many characters of a path a Refusal has.
const keptPath = 200

func (c *Collector) recordRefusal(r *http.Request, refused *requestError) {
	c.record.Refused(Refusal{
		At: c.clock.Now(), Path: pathOf(r),
		Status: refused.status, Code: refused.code, Message: refused.message,
	})
}

func (rs recorders) Refused(r Refusal) {
	for _, recorder := range rs {
		recorder.Refused(r)
	}
}

// Refused implements Recorder.
func (h *History) Refused(r Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.refused) == keptRefusals {
		h.refused = h.refused[1:]
		h.feed.removeOldest(&h.feed.refused)
	}
	h.refused = append(h.refused, r)
	h.feed.add(&feedItem{refusal: &r})
	h.tally.add(r.At, tallyRejected, 1)
	h.tell()
}

// Refusals returns the newest requests that were refused, oldest first.
func (h *History) Refusals() []Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused[:len(h.refused):len(h.refused)]
}
