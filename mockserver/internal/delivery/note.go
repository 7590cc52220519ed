package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A note is what the next attempt at a call needs to know. The journal keeps it between
// attempts.
type note struct {
	skipped int           // attempts at its entry in which the call was not tried, or was broken off
	failing time.Time     // when it was tried first and failed, where calls have an order: to a second; else the zero time
	due     time.Time     // when it may be tried again, where calls have an order: to a millisecond; the zero time stands for at once
	wait    time.Duration // for which it was put off then
	refused refusals
}

// String writes the note: the number, if it is not 0, the times in base 36 behind @ and ~,
// if there are any, behind them a colon, and the refusals.
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

// failedSince returns when the call failed first, which is now if it had not.
func (n note) failedSince(now time.Time) time.Time {
	if n.failing.IsZero() {
		return now
	}
	return n.failing
}

// clockStep is how far a clock may step back unnoticed.
const clockStep = 10 * time.Second

// left returns for how long the call is to wait still. Where the clock has stepped back since
// it was put off, that is no time.
func (n note) left(now time.Time) time.Duration {
	left := n.due.Sub(now)
	if n.due.IsZero() || left > n.wait+clockStep {
		return 0
	}
	return max(left, 0)
}

// skippedOnce returns the note after an attempt in which the call was not tried.
func (n note) skippedOnce() note {
	n.skipped++
	return n
}

// noteOf returns the note of a call of an entry.
func noteOf(e *journal.Entry, call int) (n note) {
	if e.Notes == nil {
		return n
	}
	return parseNote(e.Notes[call])
}

// parseNote reads a note.
func parseNote(text string) (n note) {
	skipped, refused, found := strings.Cut(text, ":")
	if !found {
		return note{refused: refusals(skipped)}
	}
	skipped, due, found := strings.Cut(skipped, "~")
	if found {
		due, wait, _ := strings.Cut(due, "+")
		milliseconds, _ := strconv.ParseInt(due, 36, 64) // as String wrote it, and what follows
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

// refusals name the webhooks that have refused a call for good, while others may
// still take it: they are not asked again. A webhook whose settings have changed is
// another one.
type refusals string

// others returns the webhooks of a destination that have not refused the call.
func (r refusals) others(d *tracking.Destination) []webhook.Endpoint {
	if r == "" {
		return d.Webhooks
	}
	var others []webhook.Endpoint
	for _, w := range d.Webhooks {
		if !r.have(d, w) {
			others = append(others, w)
		}
	}
	return others
}

// with adds those that have refused it now, and leaves out those that are gone.
func (r refusals) with(d *tracking.Destination, refusing []webhook.Endpoint) refusals {
	var ids []string
	for _, w := range d.Webhooks {
		if r.have(d, w) {
			ids = append(ids, webhookID(d, w))
		}
	}
	for _, w := range refusing {
		ids = append(ids, webhookID(d, w))
	}
	return refusals(strings.Join(ids, "."))
}

func (r refusals) have(d *tracking.Destination, w webhook.Endpoint) bool {
	return r != "" && slices.Contains(strings.Split(string(r), "."), webhookID(d, w))
}

// webhookID identifies a webhook with all settings that its answer can depend on: where
// one of them has changed, a webhook that has refused the call is asked for it again.
func webhookID(d *tracking.Destination, w webhook.Endpoint) string {
	h := sha256.New()
	for _, text := range []string{d.SharedSecret, d.PreviousSecret, string(d.Signature), string(d.AliasFields), w.URL} {
		_, _ = h.Write(append([]byte(text), 0))
	}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		_, _ = h.Write(append([]byte(name+"\x00"+w.Headers[name]), 0))
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}
