package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Policy decides which addresses the collector may connect to. The zero Policy allows only
// the public Internet: no loopback, private or special-purpose networks. No Policy allows
// link-local addresses, cloud metadata services, multicast, broadcast and the unspecified
// address.
//
// If an IPv6 address contains an IPv4 address, the Policy checks the IPv4 address as well. This
// applies to IPv4-mapped, NAT64, 6to4 and Teredo addresses, and to obsolete formats.
type Policy struct {
	// AllowLoopback allows 127.0.0.0/8 and ::1. Defaults to false.
	AllowLoopback bool
	// Allow lists additional networks to allow.
	Allow []netip.Prefix
}

// A PolicyError reports an address that the Policy refuses. Nothing was sent to the address.
type PolicyError struct {
	Addr    netip.Addr
	Rule    string // rule that refuses the address, such as "private network 10.0.0.0/8"
	Setting string // setting that allows the address; empty if no setting does
}

func (e *PolicyError) Error() string {
	if e.Setting == "" {
		return fmt.Sprintf("the address %v is refused: %s; no setting allows it", e.Addr, e.Rule)
	}
	return fmt.Sprintf("the address %v is refused: %s; to allow it, set %s", e.Addr, e.Rule, e.Setting)
}

// A network is a special-purpose network.
type network struct {
	prefix  netip.Prefix
	name    string // name in PolicyError.Rule
	allowed allowance
}

// An allowance is the setting that allows a network.
type allowance uint8

const (
	never      allowance = iota // no setting
	ifListed                    // Policy.Allow
	ifLoopback                  // Policy.Allow or Policy.AllowLoopback
)

func special(allowed allowance, name string, prefixes ...string) []network {
	list := make([]network, len(prefixes))
	for i, p := range prefixes {
		list[i] = network{netip.MustParsePrefix(p), name, allowed}
	}
	return list
}

// networks contains the special-purpose networks. The first match names the rule.
var networks = slices.Concat(
	special(never, "cloud metadata service",
		"169.254.169.254/32",     // most clouds
		"169.254.170.2/32",       // Amazon ECS
		"169.254.170.23/32",      // Amazon EKS
		"168.63.129.16/32",       // Azure
		"100.100.100.200/32",     // Alibaba
		"192.0.0.192/32",         // Oracle, classic
		"fd00:ec2::/32",          // Amazon
		"fd20:ce::254/128",       // Google
		"fd00:c1::a9fe:a9fe/128", // Oracle
		"fd00:a9fe:a9fe::1/128",  // Akamai
		"fd00:42::42/128",        // Scaleway
	),
	special(never, "link-local network", "169.254.0.0/16", "fe80::/10"),
	special(never, "unspecified address", "0.0.0.0/8", "::/128"),
	special(never, "multicast network", "224.0.0.0/4", "ff00::/8"),
	special(never, "broadcast address", "255.255.255.255/32"),
	special(ifLoopback, "loopback network", "127.0.0.0/8", "::1/128"),
	special(ifListed, "private network", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),
	special(ifListed, "shared network of a provider (CGNAT)", "100.64.0.0/10"),
	special(ifListed, "unique local network", "fc00::/7"),
	special(ifListed, "site-local network", "fec0::/10"),
	special(ifListed, "local NAT64 network", "64:ff9b:1::/48"),
	special(ifListed, "Teredo network", "2001::/32"),
	special(ifListed, "benchmarking network", "198.18.0.0/15", "2001:2::/48"),
	special(ifListed, "documentation network", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"),
	special(ifListed, "network of IETF protocols", "192.0.0.0/24", "2001::/23"),
	special(ifListed, "6to4 relay network", "192.88.99.0/24"),
	special(ifListed, "reserved network", "240.0.0.0/4"),
)

var (
	wellKnownNAT64 = netip.MustParsePrefix("64:ff9b::/96")
	localNAT64     = netip.MustParsePrefix("64:ff9b:1::/48")
	globalUnicast  = netip.MustParsePrefix("2000::/3")
	sixToFour      = netip.MustParsePrefix("2002::/16")
	teredo         = netip.MustParsePrefix("2001::/32")
	compatible     = netip.MustParsePrefix("::/96")           // RFC 4291, 2.5.5.1: obsolete
	translated     = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, 2.1: obsolete
)

// Check returns a [*PolicyError] if the policy refuses addr, or nil.
func (p Policy) Check(addr netip.Addr) error {
	a := addr.WithZone("").Unmap()
	if !a.IsValid() {
		return &PolicyError{Addr: addr, Rule: "not an IP address"}
	}
	n := find(a)
	if n != nil && n.allowed == never {
		return n.refuse(addr)
	}
	inner, carried := carriedIPv4(a)
	for _, v4 := range inner {
		// AllowLoopback does not apply to an embedded address, because the gateway has its own
		// loopback network.
		if err := (Policy{Allow: p.Allow}).Check(v4); err != nil && (carried || neverAllowed(err)) {
			return carry(addr, err)
		}
	}
	switch {
	case p.allows(a):
		return nil
	case n != nil && n.allowed == ifLoopback && p.AllowLoopback:
		return nil
	case n != nil:
		return n.refuse(addr)
	case a.Is6() && !carried && !globalUnicast.Contains(a):
		return &PolicyError{Addr: addr, Rule: "outside of the public network " + globalUnicast.String(), Setting: allowSetting(netip.PrefixFrom(a, a.BitLen()))}
	}
	return nil
}

// find returns the special-purpose network that contains an address, or nil.
func find(a netip.Addr) *network {
	i := slices.IndexFunc(networks, func(n network) bool { return n.prefix.Contains(a) })
	if i < 0 {
		return nil
	}
	return &networks[i]
}

func (n *network) refuse(addr netip.Addr) error {
	refusal := &PolicyError{Addr: addr, Rule: n.name + " " + n.prefix.String()}
	switch n.allowed {
	case ifListed:
		refusal.Setting = allowSetting(n.prefix)
	case ifLoopback:
		refusal.Setting = allowSetting(n.prefix) + orDev
	}
	return refusal
}

func allowSetting(p netip.Prefix) string { return `egress.allow: ["` + p.String() + `"]` }

// orDev describes another way to set AllowLoopback. It does not apply to embedded addresses.
const orDev = ", or run in dev mode"

func neverAllowed(err error) bool {
	var refusal *PolicyError
	return errors.As(err, &refusal) && refusal.Setting == ""
}

// carry converts the error for an embedded IPv4 address to an error for the IPv6 address.
func carry(addr netip.Addr, err error) error {
	var inner *PolicyError
	if !errors.As(err, &inner) {
		return err
	}
	return &PolicyError{Addr: addr, Rule: fmt.Sprintf("it carries %v, %s", inner.Addr, inner.Rule), Setting: strings.TrimSuffix(inner.Setting, orDev)}
}

func (p Policy) allows(a netip.Addr) bool {
	for _, allowed := range p.Allow {
		if mapped := allowed.Addr(); mapped.Is4In6() && allowed.Bits() >= 96 {
			allowed = netip.PrefixFrom(mapped.Unmap(), allowed.Bits()-96)
		}
		if allowed.Contains(a) {
			return true
		}
	}
	return false
}

// carriedIPv4 returns the IPv4 addresses embedded in an IPv6 address. If certain is true, packets
// are sent to the IPv4 address, and its rules decide. Otherwise packets may be sent to it, and only
// the rules that no setting overrides apply.
func carriedIPv4(a netip.Addr) (inner []netip.Addr, certain bool) {
	if !a.Is6() {
		return nil, false
	}
	b := a.As16()
	v4 := func(b0, b1, b2, b3 byte) netip.Addr { return netip.AddrFrom4([4]byte{b0, b1, b2, b3}) }
	last := v4(b[12], b[13], b[14], b[15])
	switch {
	case wellKnownNAT64.Contains(a), translated.Contains(a):
		return []netip.Addr{last}, true
	case compatible.Contains(a) && a != netip.IPv6Loopback():
		return []netip.Addr{last}, true
	case sixToFour.Contains(a):
		return []netip.Addr{v4(b[2], b[3], b[4], b[5])}, true
	case teredo.Contains(a):
		return []netip.Addr{v4(b[4], b[5], b[6], b[7]), v4(^b[12], ^b[13], ^b[14], ^b[15])}, false
	case localNAT64.Contains(a): // prefixes of 48, 56, 64 and 96 bits; RFC 6052, 2.2
		return nonZero(v4(b[6], b[7], b[9], b[10]), v4(b[7], b[9], b[10], b[11]), v4(b[9], b[10], b[11], b[12]), last), false
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214, 6.1
		return []netip.Addr{last}, false
	}
	return nil, false
}

// nonZero removes zero addresses. A zero address means that a format does not apply.
func nonZero(all ...netip.Addr) (some []netip.Addr) {
	for _, a := range all {
		if a.As4()[0] != 0 {
			some = append(some, a)
		}
	}
	return some
}

// CheckHost returns a [*PolicyError] if the host of a URL is an IP address that the policy
// refuses. It also recognizes formats that only some resolvers accept: decimal, octal and
// hexadecimal numbers, and fewer than four parts. It does not use DNS. The addresses of a host
// name are checked for each connection.
func (p Policy) CheckHost(host string) error {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.Check(addr)
	}
	if addr, ok := looseIPv4(host); ok {
		return p.Check(addr)
	}
	return nil
}

// looseIPv4 parses an IPv4 address like inet_aton. The address consists of one to four numbers,
// each decimal, octal (0…) or hexadecimal (0x…). The last number fills the remaining bytes.
func looseIPv4(host string) (netip.Addr, bool) {
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var n uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		v, err := parseLoose(part)
		if err != nil || v>>bits != 0 {
			return netip.Addr{}, false
		}
		n = n<<bits | v
	}
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), true
}

func parseLoose(s string) (uint64, error) {
	if strings.ContainsAny(s, "_+-") {
		return 0, strconv.ErrSyntax
	}
	switch {
	case len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x':
		return strconv.ParseUint(s[2:], 16, 64)
	case len(s) > 1 && s[0] == '0':
		return strconv.ParseUint(s[1:], 8, 64)
	}
	return strconv.ParseUint(s, 10, 64)
}
