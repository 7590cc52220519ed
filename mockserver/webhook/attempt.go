package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Attempt is the record of one request and what came of it. Its maps and bytes
// must not be changed: they are shared with the request.
type Attempt struct {
	Time     time.Time     `json:"time"`     // when it began
	Duration time.Duration `json:"duration"` // of the whole exchange; nanoseconds in JSON
	URL      string        `json:"url"`
	Number   int           `json:"number"` // 1 at first
	// Status is the response's, 0 when there was none.
	Status  int     `json:"status,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Reason and Error say why it failed, for programs and for people.
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// RetryAfter is how long the receiver of a temporary failure asked to be
	// left alone, from a second to Window.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// NotConnected says that it failed before there was a connection to the receiver:
	// nothing in the request can have caused that.
	NotConnected bool `json:"-"`
	// RequestHeader is what was sent beside Host and Content-Length.
	RequestHeader http.Header `json:"requestHeader,omitempty"`
	RequestBody   []byte      `json:"requestBody,omitempty"`
	// ResponseHeader and ResponseBody are cut to 4 KB each.
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
	ResponseBody   []byte      `json:"responseBody,omitempty"`
}

// Verdict is what an attempt means for its call.
type Verdict int

const (
	// Success: the receiver took the call, no entry needs another attempt.
	Success Verdict = iota + 1
	// Temporary: another attempt at this entry can succeed.
	Temporary
	// Permanent: another attempt at this entry would fail alike.
	Permanent
)

var verdicts = [...]string{Success: "success", Temporary: "temporary", Permanent: "permanent"}

func (v Verdict) String() string {
	if v < Success || v > Permanent {
		return "Verdict(" + strconv.Itoa(int(v)) + ")"
	}
	return verdicts[v]
}

// MarshalText writes "success", "temporary" or "permanent".
func (v Verdict) MarshalText() ([]byte, error) {
	if v < Success || v > Permanent {
		return nil, fmt.Errorf("webhook: %v is no verdict", v)
	}
	return []byte(verdicts[v]), nil
}

// UnmarshalText reads what MarshalText writes.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i := Success; i <= Permanent; i++ {
		if verdicts[i] == string(text) {
			*v = i
			return nil
		}
	}
	return fmt.Errorf("webhook: %.40q is no verdict: use success, temporary or permanent", text)
}

// Reason says why an attempt failed.
type Reason string

const (
	ReasonTimeout     Reason = "timeout"           // no complete response in time
	ReasonDNS         Reason = "dns"               // the host's name did not resolve
	ReasonConnection  Reason = "connection"        // not connected, or the connection broke
	ReasonPolicy      Reason = "refused_by_policy" // see PolicyError
	ReasonSelfSigned  Reason = "self_signed"       // the certificate is signed by itself
	ReasonCertificate Reason = "certificate"       // the certificate is not valid for other causes
	ReasonRedirect    Reason = "redirect"          // a 3xx, which is not followed
	ReasonStatus      Reason = "status"            // another status that is not 2xx
	ReasonRequest     Reason = "request"           // the settings give no request that can be sent
	ReasonCanceled    Reason = "canceled"          // the collector stopped
)
