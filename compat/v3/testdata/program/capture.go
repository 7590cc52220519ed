package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"time"
)

// A collector records calls in a normalized format.
type collector struct {
	mu       sync.Mutex
	calls    []string
	problems []error
}

// A batch is the body of a request.
type batch struct {
	Batch     []map[string]interface{} `json:"batch"`
	Context   map[string]interface{}   `json:"context"`
	MessageID string                   `json:"messageId"`
	SentAt    time.Time                `json:"sentAt"`
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.take(r); err != nil {
		c.problems = append(c.problems, err)
	}
}

// take records the calls of a request. The caller holds mu.
func (c *collector) take(r *http.Request) error {
	key, _, _ := r.BasicAuth()
	if r.Method != http.MethodPost || r.URL.Path != "/v1/batch" || r.Header.Get("Content-Type") != "application/json" || key == "" {
		return fmt.Errorf("a request that is no batch: %s %s with the key %q", r.Method, r.URL, key)
	}
	var b batch
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber() // compare numbers as text
	if err := decoder.Decode(&b); err != nil {
		return err
	}
	if b.MessageID == "" || time.Since(b.SentAt).Abs() > time.Minute || len(b.Batch) == 0 {
		return fmt.Errorf("a batch of %d calls with the id %q, sent at %v", len(b.Batch), b.MessageID, b.SentAt)
	}
	if library, _ := b.Context["library"].(map[string]interface{}); library["version"] != "" {
		library["version"] = "(of the library)"
	}
	for _, call := range b.Batch {
		if err := normalize(call); err != nil {
			return err
		}
		text, err := json.Marshal(map[string]interface{}{"key": key, "context": b.Context, "call": call})
		if err != nil {
			return err
		}
		c.calls = append(c.calls, string(text))
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// normalize replaces generated IDs and the current time, and unifies the format of times.
func normalize(call map[string]interface{}) error {
	if id := fmt.Sprint(call["messageId"]); uuid.MatchString(id) {
		call["messageId"] = "(a UUID)"
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(call["timestamp"]))
	if err != nil {
		return err
	}
	call["timestamp"] = at.UTC().Format("2006-01-02T15:04:05.000Z")
	if time.Since(at).Abs() < time.Minute {
		call["timestamp"] = "(the present)"
	}
	return nil
}

// list returns the received calls as a sorted JSON array with sorted keys.
func (c *collector) list() ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.problems) > 0 {
		return nil, c.problems[0]
	}
	slices.Sort(c.calls)
	list := make([]json.RawMessage, len(c.calls))
	for i, call := range c.calls {
		list[i] = json.RawMessage(call)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "\t")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(list)
	return out.Bytes(), err
}
