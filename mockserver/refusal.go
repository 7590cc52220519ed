package mockserver

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Refusal is a request to the tracking API that was refused as a whole.
type Refusal struct {
	At      time.Time `json:"at"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`             // its first 200 characters, without a write key
	Source  string    `json:"source,omitempty"` // whose write key its header had; empty where that is not known
	Status  int       `json:"status"`           // of the answer
	Code    Code      `json:"code"`
	Message string    `json:"message"` // what was wrong and what would be right
	// Count is how many requests it stands for, of which it tells of the newest.
	// Those without a known write key come from scanners too, and are put together by
	// code and minute.
	Count int `json:"count"`
}

// pathOf returns the path of a request as it may be kept and shown, without write
// keys: those of sources, what stands where libraries put one, and what looks like one.
func (c *Collector) pathOf(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if at := strings.Index(strings.ToLower(path), "writekey="); at >= 0 { // its question mark was escaped
		at += len("writekey=")
		path = path[:at] + redact(path[at:])
	}
	parts := strings.Split(path, "/")
	expected := false // a write key
	for i, part := range parts {
		if part == "" {
			continue
		}
		if expected || looksLikeKey(part) || c.isWriteKey(part) {
			parts[i] = redact(part)
		}
		expected = strings.EqualFold(part, "projects")
	}
	return cut(keptPath, cmp.Or(strings.Join(parts, "/"), "/"))
}

// isWriteKey reports whether a part of a path is the write key of a source.
func (c *Collector) isWriteKey(part string) bool {
	return slices.ContainsFunc(c.settings.Load().Sources, func(s Source) bool { return s.WriteKey == part })
}

// looksLikeKey reports whether a part of a path is a long text of letters and digits,
// as generated keys are and names of files are not.
func looksLikeKey(part string) bool {
	digits, letters := 0, 0
	for i := range len(part) {
		switch b := part[i]; {
		case b >= '0' && b <= '9':
			digits++
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			letters++
		case b != '-' && b != '_':
			return false
		}
	}
	return len(part) >= 16 && digits > 0 && letters > 0
}

const (
	// keptRefusals is how many refusals a History keeps of requests with a known
	// write key, and keptStrangers how many of others.
	keptRefusals  = 1000
	keptStrangers = 10
	// strangersTogether is for how long refusals of strangers are put together.
	strangersTogether = time.Minute
	// keptPath and keptMethod are how many characters of them a Refusal has.
	keptPath   = 200
	keptMethod = 20
)

func (c *Collector) recordRefusal(r *http.Request, refused *requestError) {
	keys := keysOf(r)
	source, _ := c.sourceOf(cmp.Or(keys.basic, keys.other))
	c.observer.Observe(Refusal{
		At: c.clock.Now(), Method: cut(keptMethod, r.Method), Path: c.pathOf(r), Source: source, Count: 1,
		Status: refused.status, Code: refused.code, Message: refused.message,
	})
}

func (h *History) refused(r Refusal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tally.add(r.At, tallyRejected, 1)
	r.Count = max(r.Count, 1)
	if r.Source != "" {
		h.feed.addRefusal(&h.feed.refused, keptRefusals, r)
	} else if i := h.feed.stranger(r); i != nil {
		r.Count += i.refusal.Count
		i.refusal = &r // the old one may have been copied
		h.feed.touch(i)
	} else {
		h.feed.addRefusal(&h.feed.strangers, keptStrangers, r)
	}
	h.tell()
}

// addRefusal puts a refusal on top, and forgets the oldest of its kind beyond most.
func (f *feed) addRefusal(kind *[]*feedItem, most int, r Refusal) {
	if len(*kind) == most {
		f.removeOldest(kind)
	}
	f.add(&feedItem{refusal: &r, since: r.At})
}

// stranger returns the item that a refusal without a known write key is put to, or
// nil.
func (f *feed) stranger(r Refusal) *feedItem {
	for _, i := range slices.Backward(f.strangers) {
		if i.refusal.Code == r.Code && r.At.Sub(i.since) < strangersTogether {
			return i
		}
	}
	return nil
}

// Refusals returns the newest requests that were refused, oldest first.
func (h *History) Refusals() []Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	items := slices.Concat(h.feed.refused, h.feed.strangers)
	slices.SortFunc(items, func(a, b *feedItem) int { return cmp.Compare(a.order, b.order) })
	all := make([]Refusal, 0, len(items))
	for _, i := range items {
		all = append(all, *i.refusal)
	}
	return all
}
