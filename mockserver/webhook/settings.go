package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/http1"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// MaxEndpoints is the maximum number of webhooks of a destination.
const MaxEndpoints = 5

// Settings configures the requests of a destination.
type Settings struct {
	// Type selects the kind of the destination. Defaults to [TypeWebhooks]. [TypeRelay] uses Endpoint,
	// Region, WriteKey and Batch, and no other setting.
	Type Type `json:"type,omitempty"`
	// Webhooks contains one to five webhooks, which all receive each call.
	Webhooks []Endpoint `json:"webhooks"`
	// Endpoint is the URL of the collector that a relay sends to. A path that ends in /batch or
	// /import is used unchanged. Otherwise /batch is appended to a path that ends in /v1, and
	// /v1/batch to any other path. Defaults to the endpoint of the service in Region.
	Endpoint string `json:"endpoint,omitempty"`
	// Region selects the default of Endpoint. Defaults to [RegionUS].
	Region Region `json:"region,omitempty"`
	// WriteKey identifies the source in the collector that a relay sends to.
	WriteKey string `json:"writeKey,omitempty"`
	// SharedSecret is the secret that signs each request; see [Sign] and [SignStandard]. If it is
	// empty, requests are not signed.
	SharedSecret string `json:"sharedSecret,omitempty"`
	// PreviousSecret adds a second signature during a secret rotation. It requires
	// [SignatureStandard] or [SignatureBoth], because X-Signature contains only one signature.
	// Optional.
	PreviousSecret string `json:"previousSecret,omitempty"`
	// Signature selects the kind of signature. Defaults to [SignatureService].
	Signature Signature `json:"signature,omitempty"`
	// AliasFields selects the names of the two IDs in the bodies of alias calls. Defaults to
	// [AliasSpaced].
	AliasFields AliasFields `json:"aliasFields,omitempty"`
	// Batch sends several calls in one request. A relay always does.
	Batch Batch `json:"batch,omitzero"`
	// TraceContext selects the trace headers of requests. Defaults to [TraceParent].
	TraceContext TraceContext `json:"traceContext,omitempty"`
}

// An Endpoint is the URL of a webhook, with the headers that are added to each request.
type Endpoint struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
}

// A FieldError describes one invalid setting.
type FieldError struct {
	Field   string // path of the setting, such as webhooks[2].headers["Host"]
	Problem string // follows the field in the error, such as "is empty"
	Hint    string // how to fix it
}

// Error returns the field, the problem and the hint. It shortens the field to 80 bytes and the
// problem to 160 bytes, because both may contain input.
func (e *FieldError) Error() string {
	return text.CutBytes(text.MaxField, e.Field) + ": " + text.CutBytes(text.MaxProblem, e.Problem) + ": " + e.Hint
}

// Validate returns a joined error with a [*FieldError] for each invalid setting, in the order of the
// fields, or nil.
func (s Settings) Validate() error {
	var p problems
	p.relay(s)
	switch n := len(s.Webhooks); {
	case s.Type != "" && s.Type != TypeWebhooks: // checked by relay
	case n == 0:
		p.add("webhooks", "is empty", "give at least one URL")
	case n > MaxEndpoints:
		p.add("webhooks", fmt.Sprintf("has %d URLs", n), fmt.Sprintf("keep at most %d", MaxEndpoints))
	}
	for i, e := range s.Webhooks {
		field := fmt.Sprintf("webhooks[%d]", i)
		p.url(field+".url", e.URL, "use a static header such as Authorization instead")
		p.headers(field+".headers", e.Headers)
	}
	p.signing(s)
	switch s.AliasFields {
	case "", AliasSpaced, AliasCamelCase:
	default:
		p.add("aliasFields", fmt.Sprintf("is %.50q", s.AliasFields), `use "spaced" or "camelCase"`)
	}
	p.batch(s)
	switch s.TraceContext {
	case "", TraceParent, TraceAll, TraceNone:
	default:
		p.add("traceContext", fmt.Sprintf("is %.50q", s.TraceContext), `use "parent", "all" or "none"`)
	}
	return errors.Join(p...)
}

// problems collects FieldErrors.
type problems []error

func (p *problems) add(field, problem, hint string) {
	*p = append(*p, &FieldError{Field: field, Problem: problem, Hint: hint})
}

// signing checks that the secrets can sign requests.
func (p *problems) signing(s Settings) {
	switch s.Signature {
	case "", SignatureService:
		if s.PreviousSecret != "" {
			p.add("previousSecret", "cannot be used with X-Signature, which contains one signature", `use the signature "standard" or "both", or let the receiver accept both secrets during the rotation`)
		}
		return
	case SignatureStandard, SignatureBoth:
	default:
		p.add("signature", fmt.Sprintf("is %.50q", s.Signature), `use "service", "standard" or "both"`)
		return
	}
	if s.SharedSecret == "" {
		p.add("sharedSecret", "is empty", fmt.Sprintf("set one for the signature %q, or use the signature \"service\"", s.Signature))
	}
	if s.PreviousSecret != "" && s.PreviousSecret == s.SharedSecret {
		p.add("previousSecret", "is the shared secret", "omit it, or set the secret used before")
	}
	for _, secret := range [][2]string{{"sharedSecret", s.SharedSecret}, {"previousSecret", s.PreviousSecret}} {
		field, text := secret[0], secret[1]
		if text == "" {
			continue
		}
		key, err := parseSecret(text)
		switch {
		case err != nil:
			p.add(field, "cannot sign", strings.TrimPrefix(err.Error(), "webhook: "))
		case key.public != nil:
			p.add(field, "is a public key, which cannot sign", "set the private key, whsk_…")
		case key.private != nil && s.Signature == SignatureBoth && field == "sharedSecret":
			p.add(field, "is a private key, which cannot create an X-Signature", `use the signature "standard", or another secret`)
		}
	}
}

const exampleURL = "use a URL such as https://example.com/hook"

// url checks a URL. credentials is the hint if it contains credentials.
func (p *problems) url(field, text, credentials string) {
	if text == "" {
		p.add(field, "is empty", exampleURL)
		return
	}
	if protocol, host := spell.Protocol(text); protocol != "" {
		p.add(field, "has no protocol", "start it with "+protocol+host)
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		p.add(field, fmt.Sprintf("is not a valid URL (%.50v)", http1.BareURLError(err)), exampleURL)
		return
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		wrong := "has no protocol"
		if u.Scheme != "" {
			wrong = fmt.Sprintf("has the protocol %.50q", u.Scheme)
		}
		p.add(field, wrong, "start it with https:// or http://")
		return
	}
	if u.Hostname() == "" {
		p.add(field, "has no host", exampleURL)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			p.add(field, fmt.Sprintf("has the port %.50s", port), "use one from 1 to 65535")
		}
	}
	if u.User != nil {
		p.add(field, "contains credentials", credentials)
	}
}

func (p *problems) headers(field string, headers map[string]string) {
	names := make(map[string]string, len(headers))
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		field := fmt.Sprintf("%s[%.50q]", field, name)
		if !http1.IsToken(name) {
			p.add(field, "is not a valid header name", "use letters, digits and hyphens")
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		if why := http1.Reserved(canonical); why != "" {
			p.add(field, why, "remove it")
		}
		if other, ok := names[canonical]; ok {
			p.add(field, fmt.Sprintf("is the same header as %.50q", other), "keep one of them")
		}
		names[canonical] = name
		if i := strings.IndexFunc(headers[name], http1.IsControl); i >= 0 {
			p.add(field, fmt.Sprintf("has the control character %q in its value", headers[name][i]), "use printable characters only")
		}
	}
}
