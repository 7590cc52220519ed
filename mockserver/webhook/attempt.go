package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// An Attempt is the record of one request to a webhook and its result. Its maps and slices
// must not be modified.
type Attempt struct {
	Time     time.Time     `json:"time"`     // start of the attempt
	Duration time.Duration `json:"duration"` // duration of the whole exchange; nanoseconds in JSON
	URL      string        `json:"url"`
	Number   int           `json:"number"` // value of the X-Attempt header, counted from 1
	// Calls is the number of calls of the request if it was a [Batch]. RequestBody then contains
	// only this call, and Number its attempt.
	Calls int `json:"calls,omitempty"`
	// Shared is true if the call was part of a batch and the attempt of another call represents the
	// request. Exactly one call of each request has false: the first one with the lowest Number.
	Shared bool `json:"shared,omitempty"`
	// Status is the status code of the response, or 0 if there was no response.
	Status  int     `json:"status,omitempty"`
	Verdict Verdict `json:"verdict"`
	// Reason and Error explain a failure. Reason is for programs, and Error for people.
	Reason Reason `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	// RetryAfter is the delay that the response requires, usually with a Retry-After header. It is
	// between one second and Window, or 0 if Verdict is not Temporary.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// NotConnected reports that the attempt failed before a connection to the receiver was
	// established. The request did not cause such a failure.
	NotConnected bool `json:"-"`
	// RequestHeader is the header of the request, except Host and Content-Length.
	RequestHeader http.Header `json:"requestHeader,omitempty"`
	RequestBody   []byte      `json:"requestBody,omitempty"`
	// ResponseHeader and ResponseBody are truncated to 4 KB each.
	ResponseHeader http.Header `json:"responseHeader,omitempty"`
	ResponseBody   []byte      `json:"responseBody,omitempty"`
}

// A Verdict is the consequence of an attempt for its call.
type Verdict int

const (
	// Success means that the receiver accepted the call. No webhook gets another attempt.
	Success Verdict = iota + 1
	// Temporary means that a retry at this webhook may succeed.
	Temporary
	// Permanent means that a retry at this webhook would fail again.
	Permanent
)

var verdicts = [...]string{Success: "success", Temporary: "temporary", Permanent: "permanent"}

func (v Verdict) String() string {
	if v < Success || v > Permanent {
		return "Verdict(" + strconv.Itoa(int(v)) + ")"
	}
	return verdicts[v]
}

// MarshalText returns "success", "temporary" or "permanent".
func (v Verdict) MarshalText() ([]byte, error) {
	if v < Success || v > Permanent {
		return nil, fmt.Errorf("webhook: invalid verdict %v", v)
	}
	return []byte(verdicts[v]), nil
}

// UnmarshalText parses the text that MarshalText returns.
func (v *Verdict) UnmarshalText(text []byte) error {
	for i := Success; i <= Permanent; i++ {
		if verdicts[i] == string(text) {
			*v = i
			return nil
		}
	}
	return fmt.Errorf("webhook: invalid verdict %.40q: use success, temporary or permanent", text)
}

// A Reason classifies the failure of an attempt.
type Reason string

const (
	ReasonTimeout     Reason = "timeout"           // no complete response within the timeout
	ReasonDNS         Reason = "dns"               // the host name did not resolve
	ReasonConnection  Reason = "connection"        // the connection failed or broke
	ReasonPolicy      Reason = "refused_by_policy" // see PolicyError
	ReasonSelfSigned  Reason = "self_signed"       // the certificate is self-signed
	ReasonCertificate Reason = "certificate"       // the certificate is invalid for any other reason
	ReasonRedirect    Reason = "redirect"          // a 3xx response; redirects are not followed
	ReasonStatus      Reason = "status"            // any other response that is not 2xx
	ReasonRequest     Reason = "request"           // the settings do not result in a valid request
	ReasonCanceled    Reason = "canceled"          // the collector stopped
)
