package sender

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// conclude sets the verdict, reason and error of an attempt. If err is nil, it uses the status.
func conclude(a *webhook.Attempt, err error, timeout time.Duration) {
	switch {
	case err != nil:
		a.NotConnected = notConnected(err)
		a.Reason, a.Error = explain(a, err, timeout)
		a.Verdict = verdictOfReason(a.Reason)
	default:
		a.Verdict = verdictOfStatus(a.Status)
		a.Reason, a.Error = explainStatus(a)
	}
	if a.Verdict != webhook.Temporary {
		a.RetryAfter = 0
	}
}

// maxMessage is the maximum length of the result of Message.
const maxMessage = 120

// Cause returns the error of an attempt, followed by its message, if any.
func Cause(a *webhook.Attempt) string {
	if line := Message(a); line != "" {
		return a.Error + ": " + line
	}
	return a.Error
}

// Message returns a one-line message from the response of an attempt: the message field of a JSON object
// or the first line of text. It ignores HTML, and the responses to batches that list failed calls.
func Message(a *webhook.Attempt) string {
	answer := bytes.TrimSpace(a.ResponseBody)
	if len(answer) == 0 || answer[0] == '<' || a.Status == 0 || a.Status/100 == 2 && a.Verdict != webhook.Success {
		return ""
	}
	line := string(answer[:min(len(answer), 4*maxMessage)])
	if answer[0] != '{' && answer[0] != '[' {
		line, _, _ = strings.Cut(line, "\n")
	} else if message := messageOf(answer); message != "" {
		line = message
	}
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, text.Valid(line))
	return text.CutBytes(maxMessage, strings.Join(strings.Fields(line), " "))
}

// messageOf returns the message in a JSON object: its field message, error, detail or title, or the
// field message of the object in its field error. It returns "" if there is none.
func messageOf(answer []byte) string {
	var object, inner map[string]json.RawMessage
	if json.Unmarshal(answer, &object) != nil {
		return ""
	}
	if json.Unmarshal(object["error"], &inner) == nil && object["message"] == nil {
		object["message"] = inner["message"]
	}
	for _, name := range []string{"message", "error", "detail", "title"} {
		var message string
		if json.Unmarshal(object[name], &message) == nil && message != "" {
			return message
		}
	}
	return ""
}

// verdictOfStatus returns the verdict for a complete response.
func verdictOfStatus(status int) webhook.Verdict {
	switch {
	case status >= 200 && status <= 299:
		return webhook.Success
	case status >= 500 && status <= 599,
		status == http.StatusRequestTimeout,
		status == http.StatusTooEarly,
		status == http.StatusTooManyRequests:
		return webhook.Temporary
	}
	return webhook.Permanent
}

// verdictOfReason returns the verdict for a request without a complete response.
func verdictOfReason(r webhook.Reason) webhook.Verdict {
	switch r {
	case webhook.ReasonPolicy, webhook.ReasonSelfSigned, webhook.ReasonRequest:
		return webhook.Permanent
	}
	return webhook.Temporary
}

// explainStatus explains why a complete response is not a success.
func explainStatus(a *webhook.Attempt) (webhook.Reason, string) {
	switch {
	case a.Verdict == webhook.Success:
		return "", ""
	case a.Status >= 300 && a.Status <= 399:
		return webhook.ReasonRedirect, fmt.Sprintf("responded with %s to %q: redirects are not followed; use the final URL",
			statusText(a.Status), text.CutBytes(64, a.ResponseHeader.Get("Location")))
	}
	return webhook.ReasonStatus, "responded with " + statusText(a.Status)
}

func statusText(status int) string {
	if name := http.StatusText(status); name != "" {
		return fmt.Sprintf("%d (%s)", status, name)
	}
	return fmt.Sprint(status)
}

// notConnected reports whether an error occurred before a connection was established.
func notConnected(err error) bool {
	var op *net.OpError
	_, _, badCertificate := certificateProblem(err)
	return badCertificate || errors.As(err, new(*net.DNSError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// ReasonOf returns the reason of an attempt that failed with an error of its transport.
func ReasonOf(err error) webhook.Reason {
	reason, _ := explain(&webhook.Attempt{}, err, 0)
	return reason
}

// explain explains the failure of an exchange, for programs and for operators.
func explain(a *webhook.Attempt, err error, timeout time.Duration) (webhook.Reason, string) {
	var (
		refusal *webhook.PolicyError
		dns     *net.DNSError
		network net.Error
		op      *net.OpError
	)
	if reason, problem, ok := certificateProblem(err); ok {
		return reason, problem
	}
	switch {
	case errors.As(err, new(*requestError)):
		return webhook.ReasonRequest, err.Error()
	case errors.As(err, &refusal):
		return webhook.ReasonPolicy, refusal.Error()
	case errors.Is(err, context.Canceled):
		return webhook.ReasonCanceled, "canceled before a response"
	case errors.As(err, &dns):
		return webhook.ReasonDNS, fmt.Sprintf("the host %s did not resolve: %s", dns.Name, dns.Err)
	case errors.As(err, &network) && network.Timeout():
		return webhook.ReasonTimeout, explainTimeout(a, timeout)
	case errors.As(err, new(tls.RecordHeaderError)):
		return webhook.ReasonConnection, "the server does not use TLS at an https URL: " + err.Error()
	case errors.As(err, &op) && op.Op == "dial":
		return webhook.ReasonConnection, "could not connect: " + err.Error()
	}
	return webhook.ReasonConnection, "the connection failed before a complete response: " + err.Error()
}

func explainTimeout(a *webhook.Attempt, timeout time.Duration) string {
	switch {
	case a.NotConnected:
		return fmt.Sprintf("could not connect within %v", connectTimeout(timeout))
	case a.Status != 0:
		return fmt.Sprintf("responded with %s, but the response did not end within %v", statusText(a.Status), timeout)
	}
	return fmt.Sprintf("no response within %v", timeout)
}
