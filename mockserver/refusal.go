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
