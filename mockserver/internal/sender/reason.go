package sender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// requestError is an error of what was to be sent, found before sending.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }

// Classify is the verdict over one request, from the status of a complete
// response or from the error that there was instead. A 2xx is a success. Temporary
// are 408, 425, 429, 5xx, and all errors but those that another attempt cannot mend:
// a refusal by the [webhook.Policy], a self-signed certificate, a request that cannot be
// made. All else is permanent.
func Classify(status int, err error) webhook.Verdict {
	if err != nil {
		return verdictOf(reasonOf(err))
	}
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

func verdictOf(r webhook.Reason) webhook.Verdict {
	switch r {
	case webhook.ReasonPolicy, webhook.ReasonSelfSigned, webhook.ReasonRequest:
		return webhook.Permanent
	}
	return webhook.Temporary
}

// reasonOf sorts the error of an exchange.
func reasonOf(err error) webhook.Reason {
	if reason, _, ok := certificateProblem(err); ok {
		return reason
	}
	var timeout net.Error
	switch {
	case errors.As(err, new(*requestError)):
		return webhook.ReasonRequest
	case errors.As(err, new(*webhook.PolicyError)):
		return webhook.ReasonPolicy
	case errors.Is(err, context.Canceled):
		return webhook.ReasonCanceled
	case errors.As(err, new(*net.DNSError)):
		return webhook.ReasonDNS
	case errors.As(err, &timeout) && timeout.Timeout():
		return webhook.ReasonTimeout
	}
	return webhook.ReasonConnection
}

// notConnected reports whether the error of an exchange came before there was a
// connection to the receiver.
func notConnected(err error) bool {
	var op *net.OpError
	_, _, badCertificate := certificateProblem(err)
	return badCertificate || errors.As(err, new(*net.DNSError)) || errors.As(err, new(tls.RecordHeaderError)) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// conclude enters what the end of the exchange means.
func conclude(a *webhook.Attempt, err error, timeout time.Duration) {
	a.Verdict = Classify(a.Status, err)
	switch {
	case err != nil:
		a.Reason, a.NotConnected = reasonOf(err), notConnected(err)
		a.Error = explain(a, err, timeout)
	case a.Verdict == webhook.Success:
	case a.Status >= 300 && a.Status <= 399:
		a.Reason = webhook.ReasonRedirect
		a.Error = fmt.Sprintf("answered %s to %q: redirects are not followed, so give the final URL", statusText(a.Status), text.CutBytes(64, a.ResponseHeader.Get("Location")))
	default:
		a.Reason = webhook.ReasonStatus
		a.Error = "answered " + statusText(a.Status)
	}
	if a.Verdict != webhook.Temporary {
		a.RetryAfter = 0
	}
}

func statusText(status int) string {
	if name := http.StatusText(status); name != "" {
		return fmt.Sprintf("%d (%s)", status, name)
	}
	return fmt.Sprint(status)
}

// explain says in words for an operator what went wrong.
func explain(a *webhook.Attempt, err error, timeout time.Duration) string {
	var op *net.OpError
	var dns *net.DNSError
	switch a.Reason {
	case webhook.ReasonTimeout:
		if a.NotConnected {
			return fmt.Sprintf("could not connect within %v", connectTimeout(timeout))
		}
		if a.Status != 0 {
			return fmt.Sprintf("answered %s, but the response did not end within %v", statusText(a.Status), timeout)
		}
		return fmt.Sprintf("no response within %v", timeout)
	case webhook.ReasonSelfSigned, webhook.ReasonCertificate:
		_, problem, _ := certificateProblem(err)
		return problem
	case webhook.ReasonPolicy:
		var refusal *webhook.PolicyError
		errors.As(err, &refusal)
		return refusal.Error()
	case webhook.ReasonDNS:
		errors.As(err, &dns)
		return fmt.Sprintf("the host %s did not resolve: %s", dns.Name, dns.Err)
	case webhook.ReasonCanceled:
		return "stopped before there was a response"
	case webhook.ReasonRequest:
		return err.Error()
	}
	if errors.As(err, new(tls.RecordHeaderError)) {
		return "the server does not speak TLS at an https URL: " + err.Error()
	}
	if errors.As(err, &op) && op.Op == "dial" {
		return "could not connect: " + err.Error()
	}
	return "the connection failed before a complete response: " + err.Error()
}
