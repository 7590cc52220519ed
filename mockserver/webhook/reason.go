package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

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
	ReasonCanceled    Reason = "canceled"          // the context of Send was canceled
)

// requestError is an error of what was to be sent, found before sending.
type requestError struct{ err error }

func (e *requestError) Error() string { return e.err.Error() }

// reasonOf sorts the error of an exchange.
func reasonOf(err error) Reason {
	if reason, _, ok := certificateProblem(err); ok {
		return reason
	}
	var timeout net.Error
	switch {
	case errors.As(err, new(*requestError)):
		return ReasonRequest
	case errors.As(err, new(*PolicyError)):
		return ReasonPolicy
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.As(err, new(*net.DNSError)):
		return ReasonDNS
	case errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	}
	return ReasonConnection
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
func conclude(a *Attempt, err error, timeout time.Duration) {
	a.Verdict = Classify(a.Status, err)
	switch {
	case err != nil:
		a.Reason, a.NotConnected = reasonOf(err), notConnected(err)
		a.Error = explain(a, err, timeout)
	case a.Verdict == Success:
	case a.Status >= 300 && a.Status <= 399:
		a.Reason = ReasonRedirect
		a.Error = fmt.Sprintf("answered %s to %q: redirects are not followed, so give the final URL", statusText(a.Status), text.CutBytes(64, a.ResponseHeader.Get("Location")))
	default:
		a.Reason = ReasonStatus
		a.Error = "answered " + statusText(a.Status)
	}
	if a.Verdict != Temporary {
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
func explain(a *Attempt, err error, timeout time.Duration) string {
	var op *net.OpError
	var dns *net.DNSError
	switch a.Reason {
	case ReasonTimeout:
		if a.NotConnected {
			return fmt.Sprintf("could not connect within %v", connectTimeout(timeout))
		}
		if a.Status != 0 {
			return fmt.Sprintf("answered %s, but the response did not end within %v", statusText(a.Status), timeout)
		}
		return fmt.Sprintf("no response within %v", timeout)
	case ReasonSelfSigned, ReasonCertificate:
		_, problem, _ := certificateProblem(err)
		return problem
	case ReasonPolicy:
		var refusal *PolicyError
		errors.As(err, &refusal)
		return refusal.Error()
	case ReasonDNS:
		errors.As(err, &dns)
		return fmt.Sprintf("the host %s did not resolve: %s", dns.Name, dns.Err)
	case ReasonCanceled:
		return "stopped before there was a response"
	case ReasonRequest:
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
