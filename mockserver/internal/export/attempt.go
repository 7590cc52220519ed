package export

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An Attempt is a request to a webhook. Invalid UTF-8 in bodies is replaced.
type Attempt struct {
	Destination    string          `json:"destination"`
	Number         int             `json:"number"`
	Time           time.Time       `json:"time"`
	DurationMS     float64         `json:"durationMs"`
	URL            string          `json:"url"`
	Calls          int             `json:"calls,omitempty"`  // number of calls of the request if it was a batch
	Status         int             `json:"status,omitempty"` // 0 if there was no response
	Verdict        webhook.Verdict `json:"verdict"`
	Reason         webhook.Reason  `json:"reason,omitempty"`
	Error          string          `json:"error,omitempty"`
	RequestHeader  http.Header     `json:"requestHeader,omitempty"`
	RequestBody    string          `json:"requestBody,omitempty"`
	ResponseHeader http.Header     `json:"responseHeader,omitempty"`
	ResponseBody   string          `json:"responseBody,omitempty"`
}

// An AttemptList is a list of attempts.
type AttemptList struct {
	Attempts []Attempt `json:"attempts"`
}

// NewAttempts returns attempts without the values of secret headers.
func NewAttempts(attempts []tracking.Attempt) AttemptList {
	views := []Attempt{}
	for _, at := range attempts {
		views = append(views, Attempt{
			Destination: at.Destination, Number: at.Number, Time: at.Time, DurationMS: float64(at.Duration) / float64(time.Millisecond),
			URL: at.URL, Calls: at.Calls, Status: at.Status, Verdict: at.Verdict, Reason: at.Reason, Error: at.Error,
			RequestHeader: engine.HideHeader(at.RequestHeader), RequestBody: text.Valid(at.RequestBody),
			ResponseHeader: at.ResponseHeader, ResponseBody: text.Valid(at.ResponseBody),
		})
	}
	return AttemptList{views}
}

// StatusLine returns the status of the response, such as 200 OK, or "no response".
func (a *Attempt) StatusLine() string {
	if a.Status == 0 {
		return "no response"
	}
	return strings.TrimSpace(strconv.Itoa(a.Status) + " " + http.StatusText(a.Status))
}

// Accepted reports whether a webhook accepted the call.
func (l AttemptList) Accepted() bool {
	return slices.ContainsFunc(l.Attempts, func(a Attempt) bool { return a.Verdict == webhook.Success })
}
