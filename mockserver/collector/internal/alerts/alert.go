package alerts

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/canonical"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// A kind identifies the condition that an alert reports.
type kind string

// Kinds of alerts. The first two concern one destination.
const (
	kindDestination kind = "destination" // the destination is down, failing or gone
	kindFailedCalls kind = "given_up"    // calls failed permanently
	kindQueue       kind = "queue"       // the queue is near its limit
	kindStorage     kind = "storage"     // calls cannot be stored, for example because the disk is full
	kindReplicas    kind = "replicas"    // replicas in the cluster are missing or behind
)

// Values of alert.State.
const (
	stateRaised    = "raised"
	stateRecovered = "recovered"
)

// An alert is the JSON body of an alert. docs/operating.md documents its fields.
type alert struct {
	Type        string    `json:"type"` // always "alert"
	Kind        kind      `json:"kind"`
	State       string    `json:"state"`
	Collector   string    `json:"collector"` // the host name
	Destination string    `json:"destination,omitempty"`
	At          time.Time `json:"at"`
	Since       time.Time `json:"since"`           // when the condition began
	Until       time.Time `json:"until,omitzero"`  // when it ended
	Times       int       `json:"times,omitempty"` // how often the condition began since the last alert; omitted for 1
	Calls       int64     `json:"calls,omitempty"` // calls that failed since the last alert
	Total       int64     `json:"total,omitempty"` // calls that failed since the condition began
	Reason      string    `json:"reason,omitempty"`
	Event       string    `json:"event,omitempty"`      // of the call that failed last: its event, page, screen or type
	MessageID   string    `json:"messageId,omitempty"`  // of the same call
	Bytes       int64     `json:"bytes,omitempty"`      // size of the queue
	LimitBytes  int64     `json:"limitBytes,omitempty"` // limit of the queue
	Text        string    `json:"text"`                 // a description in English
}

// body returns the alert in a format, which is a value of Config.Format. The JSON is the same as the output of
// JSON.stringify, which receivers need to verify the signature.
func (a *alert) body(format string) ([]byte, error) {
	var v any = a
	if format == Slack {
		v = map[string]string{"text": strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(a.Collector + ": " + a.Text)}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canonical.Append(nil, body)
}

// describe returns the text of the alert.
func (a *alert) describe() string {
	var s string
	switch raised := a.State == stateRaised; a.Kind {
	case kindDestination:
		s = a.describeDestination(raised)
	case kindFailedCalls:
		s = a.describeFailedCalls(raised)
	case kindQueue:
		s = fmt.Sprintf("The queue is at %d %% of its limit (%s of %s bytes). At the limit, calls are rejected with status 429.", percent(a.Bytes, a.LimitBytes), text.GroupDigits(a.Bytes), text.GroupDigits(a.LimitBytes))
		if !raised {
			s = fmt.Sprintf("The queue has room again: it is at %d %% of its limit. It was near the limit %s.", percent(a.Bytes, a.LimitBytes), a.period())
		}
	case kindStorage:
		s = fmt.Sprintf("Calls have been rejected with status 503 since %s because they cannot be stored: %s.", clock(a.Since), a.Reason)
		if !raised {
			s = fmt.Sprintf("Calls can be stored again. They could not be stored %s.", a.period())
		}
	case kindReplicas:
		s = fmt.Sprintf("Replicas in the cluster have been missing or behind since %s: %s.", clock(a.Since), a.Reason)
		if !raised {
			s = fmt.Sprintf("All replicas in the cluster are up to date again. Some were missing or behind %s.", a.period())
		}
	}
	if a.Times > 1 {
		s += fmt.Sprintf(" This happened %d times since the last alert.", a.Times)
	}
	return s
}

func (a *alert) describeDestination(raised bool) string {
	switch {
	case raised:
		s := fmt.Sprintf("The destination %s has accepted few or no calls since %s.", a.Destination, clock(a.Since))
		if a.Reason != "" {
			s += " Latest failure: " + a.Reason + a.ofCall() + "."
		}
		return s
	case a.Reason != "":
		return fmt.Sprintf("The destination %s is no longer monitored: %s. It accepted few or no calls %s.", a.Destination, a.Reason, a.period())
	}
	return fmt.Sprintf("The destination %s accepts calls again. It accepted few or none %s.", a.Destination, a.period())
}

func (a *alert) describeFailedCalls(raised bool) string {
	if !raised {
		return fmt.Sprintf("Calls to the destination %s no longer fail permanently. %s failed from %s to %s and can be replayed.", a.Destination, text.Plural(a.Total, "call", "calls"), clock(a.Since), clock(a.Until))
	}
	s := fmt.Sprintf("%s to the destination %s failed permanently", text.Plural(a.Calls, "call", "calls"), a.Destination)
	if a.Calls != a.Total {
		s += fmt.Sprintf(" (%s in total)", text.GroupDigits(a.Total))
	}
	return s + fmt.Sprintf(" since %s. They can be replayed. Latest reason: %s.", clock(a.Since), a.Reason+a.ofCall())
}

// ofCall names the call that failed last, if it is known.
func (a *alert) ofCall() string {
	switch {
	case a.MessageID == "":
		return ""
	case a.Event == "":
		return " (messageId " + a.MessageID + ")"
	}
	return " (" + a.Event + ", messageId " + a.MessageID + ")"
}

// period describes the duration of the condition.
func (a *alert) period() string {
	return fmt.Sprintf("for %v, from %s to %s", a.Until.Sub(a.Since).Round(time.Second), clock(a.Since), clock(a.Until))
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

func percent(n, of int64) int64 {
	if of <= 0 {
		return 0
	}
	return int64(float64(n) / float64(of) * 100)
}

// maxReason and maxEvent are the maximum lengths of a reason and of the name of an event, in characters.
const maxReason, maxEvent = 300, 100

var urlBeyondHost = regexp.MustCompile(`(https?://[^/?#\s]+)[/?#].*?(: |; |$)`)

// reasonOf removes paths and queries of URLs from a reason, because they may contain secrets.
func reasonOf(s string) string {
	return text.Cut(maxReason, strings.TrimRight(urlBeyondHost.ReplaceAllString(s, "$1/…$2"), "."))
}
