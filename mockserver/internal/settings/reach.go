package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A Resolver returns the addresses of a host, or nil if they are unknown.
type Resolver func(host string) []netip.Addr

// CheckReachable returns a [*webhook.FieldError] for each URL that the policy denies, joined.
// It does not check the URLs in known. Hosts with unknown addresses are accepted. Without lookup, only
// addresses and a few well-known names are checked.
func CheckReachable(policy webhook.Policy, s *webhook.Settings, known []webhook.Endpoint, lookup Resolver) error {
	var problems []error
	for i, w := range s.Endpoints() {
		if slices.ContainsFunc(known, func(k webhook.Endpoint) bool { return k.URL == w.URL }) {
			continue
		}
		u, err := url.Parse(w.URL)
		if err != nil || u.Hostname() == "" {
			continue // reported by Validate
		}
		var refused *webhook.PolicyError
		if !errors.As(refusal(policy, u.Hostname(), lookup), &refused) {
			continue
		}
		hint := "no setting allows it; use a different address"
		if refused.Setting != "" {
			hint = "use a public address, or, if the receiver is yours, set " + refused.Setting
		}
		field := "endpoint"
		if s.Type != webhook.TypeRelay {
			field = fmt.Sprintf("webhooks[%d].url", i)
		}
		problems = append(problems, &webhook.FieldError{
			Field: field, Hint: hint,
			Problem: fmt.Sprintf("points to %v, which is not allowed: %s", refused.Addr, refused.Rule),
		})
	}
	return errors.Join(problems...)
}

// refusal returns the reason why connections to a host are denied, or nil if they are allowed
// or the host's addresses are unknown.
func refusal(policy webhook.Policy, host string, lookup Resolver) error {
	if err := policy.CheckHost(host); err != nil {
		return err
	}
	addresses := wellKnown(host)
	if addresses == nil && lookup != nil {
		addresses = lookup(host)
	}
	var err error
	for _, a := range addresses {
		if err = policy.Check(a); err == nil {
			return nil
		}
	}
	return err
}

// wellKnown returns the addresses of names that mean the same on every machine, or on every
// machine of a cloud provider.
func wellKnown(host string) []netip.Addr {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		return []netip.Addr{netip.IPv6Loopback(), netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case host == "metadata.google.internal" || host == "metadata.goog" || host == "instance-data.ec2.internal":
		return []netip.Addr{netip.AddrFrom4([4]byte{169, 254, 169, 254})}
	}
	return nil
}
