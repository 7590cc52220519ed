package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A note contains data for the next attempt at a call. The journal stores it with the entry.
type note struct {
	skipped int           // number of attempts of the entry in which this call was not attempted, or its attempt was canceled
	failing time.Time     // with ordered delivery: time of the first failure in seconds, or zero
	due     time.Time     // with ordered delivery: earliest time of the next attempt in milliseconds; zero is now
	wait    time.Duration // delay from storing the note until due
	refused refusals
}

// String formats the note: the number of skipped attempts unless it is 0, the times in base 36
// after @ and ~, a colon if any of these is present, and the refusals.
func (n note) String() string {
	if n.skipped == 0 && n.failing.IsZero() && n.due.IsZero() {
		return string(n.refused)
	}
	text := strconv.Itoa(n.skipped)
	if !n.failing.IsZero() {
		text += "@" + strconv.FormatInt(n.failing.Unix(), 36)
	}
	if !n.due.IsZero() {
		text += "~" + strconv.FormatInt(n.due.UnixMilli(), 36) + "+" + strconv.FormatInt(n.wait.Milliseconds(), 36)
	}
	return text + ":" + string(n.refused)
}

// failedSince returns the time of the first failure, or now if there was none.
func (n note) failedSince(now time.Time) time.Time {
	if n.failing.IsZero() {
		return now
	}
	return n.failing
}

// clockStep is the largest backward step of the clock that is tolerated.
const clockStep = 10 * time.Second

// left returns the remaining delay of the call. It is 0 if the clock was set back after the
// note was stored.
func (n note) left(now time.Time) time.Duration {
	left := n.due.Sub(now)
	if n.due.IsZero() || left > n.wait+clockStep {
		return 0
	}
	return max(left, 0)
}

// skippedOnce returns the note after an attempt of the entry that does not include this call.
func (n note) skippedOnce() note {
	n.skipped++
	return n
}

// noteOf returns the note of a call.
func noteOf(e *journal.Entry, call int) (n note) {
	if e.Notes == nil {
		return n
	}
	return parseNote(e.Notes[call])
}

// parseNote parses the format of String.
func parseNote(text string) (n note) {
	skipped, refused, found := strings.Cut(text, ":")
	if !found {
		return note{refused: refusals(skipped)}
	}
	skipped, due, found := strings.Cut(skipped, "~")
	if found {
		due, wait, _ := strings.Cut(due, "+")
		milliseconds, _ := strconv.ParseInt(due, 36, 64) // String writes only valid numbers
		n.due = time.UnixMilli(milliseconds)
		milliseconds, _ = strconv.ParseInt(wait, 36, 64)
		n.wait = time.Duration(milliseconds) * time.Millisecond
	}
	skipped, failing, found := strings.Cut(skipped, "@")
	if found {
		seconds, _ := strconv.ParseInt(failing, 36, 64)
		n.failing = time.Unix(seconds, 0)
	}
	n.skipped, _ = strconv.Atoi(skipped)
	n.refused = refusals(refused)
	return n
}

// refusals identifies the webhooks that refused a call permanently while others may still
// accept it. Such a webhook does not receive the call again unless the webhook's settings change.
type refusals string

// others returns the webhooks that have not refused the call.
func (r refusals) others(t *target) []endpoint {
	if r == "" {
		return t.endpoints
	}
	var others []endpoint
	for _, w := range t.endpoints {
		if !r.have(t.Destination, w.Endpoint) {
			others = append(others, w)
		}
	}
	return others
}

// with adds webhooks that refused the call, and removes webhooks that no longer exist.
func (r refusals) with(t *target, refusing []webhook.Endpoint) refusals {
	var ids []string
	for _, w := range t.endpoints {
		if r.have(t.Destination, w.Endpoint) {
			ids = append(ids, webhookID(t.Destination, w.Endpoint))
		}
	}
	for _, w := range refusing {
		ids = append(ids, webhookID(t.Destination, w))
	}
	return refusals(strings.Join(ids, "."))
}

func (r refusals) have(d *tracking.Destination, w webhook.Endpoint) bool {
	return r != "" && slices.Contains(strings.Split(string(r), "."), webhookID(d, w))
}

// webhookID identifies a webhook by all settings that can affect its response. After a change
// of these settings, the webhook receives the calls that it refused again.
func webhookID(d *tracking.Destination, w webhook.Endpoint) string {
	h := sha256.New()
	for _, text := range []string{d.SharedSecret, d.PreviousSecret, string(d.Signature), string(d.AliasFields), w.URL} {
		_, _ = h.Write(append([]byte(text), 0))
	}
	_, _ = h.Write([]byte(d.Transform))
	// Settings without redact and batch keep the ID that earlier versions stored.
	if !d.Redact.IsZero() {
		_ = json.NewEncoder(h).Encode(d.Redact) // cannot fail
	}
	if d.Batch.Calls > 0 {
		_, _ = fmt.Fprintln(h, "batch", d.Batch.Calls, d.Batch.Bytes)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		_, _ = h.Write(append([]byte(name+"\x00"+w.Headers[name]), 0))
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}
