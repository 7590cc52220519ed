package webhook

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// Expected results for an address.
const (
	public    = iota // always allowed
	byLoop           // requires AllowLoopback or Allow
	byAllow          // requires Allow
	neverEver        // always refused
)

var addresses = []struct {
	addr string
	kind int
	rule string // part of the error
}{
	// Public.
	{"1.1.1.1", public, ""},
	{"8.8.8.8", public, ""},
	{"93.184.215.14", public, ""},
	{"9.255.255.255", public, ""},
	{"11.0.0.0", public, ""},
	{"100.63.255.255", public, ""},
	{"100.128.0.0", public, ""},
	{"126.255.255.255", public, ""},
	{"128.0.0.0", public, ""},
	{"168.63.129.15", public, ""},
	{"169.253.255.255", public, ""},
	{"169.255.0.0", public, ""},
	{"172.15.255.255", public, ""},
	{"172.32.0.0", public, ""},
	{"192.0.1.0", public, ""},
	{"192.167.255.255", public, ""},
	{"198.17.255.255", public, ""},
	{"198.20.0.0", public, ""},
	{"223.255.255.255", public, ""},
	{"2606:4700:4700::1111", public, ""},
	{"2001:4860:4860::8888", public, ""},
	{"2a00:1450:4001::200e", public, ""},
	{"2001:200::1", public, ""},
	{"::ffff:1.1.1.1", public, ""},
	{"64:ff9b::1.1.1.1", public, ""},
	{"2002:0101:0101::1", public, ""},

	// Loopback.
	{"127.0.0.1", byLoop, "loopback network 127.0.0.0/8"},
	{"127.0.0.0", byLoop, "loopback"},
	{"127.255.255.254", byLoop, "loopback"},
	{"::1", byLoop, "loopback network ::1/128"},
	{"::ffff:127.0.0.1", byLoop, "loopback network 127.0.0.0/8"},
	{"::ffff:7f00:2", byLoop, "loopback"},

	// Private and special-purpose.
	{"10.0.0.0", byAllow, "private network 10.0.0.0/8"},
	{"10.255.255.255", byAllow, "private network 10.0.0.0/8"},
	{"172.16.0.1", byAllow, "private network 172.16.0.0/12"},
	{"172.31.255.255", byAllow, "private network 172.16.0.0/12"},
	{"192.168.1.1", byAllow, "private network 192.168.0.0/16"},
	{"100.64.0.1", byAllow, "CGNAT"},
	{"100.127.255.255", byAllow, "CGNAT"},
	{"192.0.0.1", byAllow, "IETF protocols 192.0.0.0/24"},
	{"192.0.0.170", byAllow, "IETF protocols"},
	{"192.0.2.1", byAllow, "documentation"},
	{"198.51.100.1", byAllow, "documentation"},
	{"203.0.113.1", byAllow, "documentation"},
	{"198.18.0.1", byAllow, "benchmarking network 198.18.0.0/15"},
	{"198.19.255.255", byAllow, "benchmarking"},
	{"192.88.99.1", byAllow, "6to4 relay"},
	{"240.0.0.1", byAllow, "reserved"},
	{"255.255.255.254", byAllow, "reserved"},
	{"fc00::1", byAllow, "unique local"},
	{"fd12:3456:789a::1", byAllow, "unique local"},
	{"fdff:ffff::1", byAllow, "unique local"},
	{"fec0::1", byAllow, "site-local"},
	{"2001:db8::1", byAllow, "documentation"},
	{"3fff::1", byAllow, "documentation"},
	{"2001:2::1", byAllow, "benchmarking"},
	{"2001:10::1", byAllow, "IETF protocols 2001::/23"},
	{"2001:20::1", byAllow, "IETF protocols"},
	{"2001:0:4136:e378:8000:63bf:3fff:fdd2", byAllow, "Teredo"},
	{"64:ff9b:1::808:808", byAllow, "local NAT64"},
	{"100::1", byAllow, "outside of the public network 2000::/3"},
	{"5f00::1", byAllow, "outside of the public network"},
	{"4000::1", byAllow, "outside of the public network"},
	{"fe00::1", byAllow, "outside of the public network"},
	{"::2:0:0:1", byAllow, "outside of the public network"},

	// The same, embedded in IPv6.
	{"::ffff:10.0.0.1", byAllow, "private network 10.0.0.0/8"},
	{"::ffff:192.168.0.1", byAllow, "private"},
	{"::ffff:100.64.0.1", byAllow, "CGNAT"},
	{"64:ff9b::10.0.0.1", byAllow, "it carries 10.0.0.1, private network"},
	{"64:ff9b::127.0.0.1", byAllow, "it carries 127.0.0.1, loopback"},
	{"2002:0a00:0001::1", byAllow, "it carries 10.0.0.1, private network"},
	{"2002:7f00:0001::1", byAllow, "it carries 127.0.0.1, loopback"},
	{"2002:c0a8:0101::1", byAllow, "it carries 192.168.1.1"},
	{"::10.0.0.1", byAllow, "it carries 10.0.0.1"},
	{"::127.0.0.1", byAllow, "it carries 127.0.0.1"},
	{"::ffff:0:10.0.0.1", byAllow, "it carries 10.0.0.1"},

	// Link-local.
	{"169.254.0.1", neverEver, "link-local network 169.254.0.0/16"},
	{"169.254.255.255", neverEver, "link-local"},
	{"fe80::1", neverEver, "link-local network fe80::/10"},
	{"fe80::1%eth0", neverEver, "link-local"},
	{"febf::1", neverEver, "link-local"},
	{"::ffff:169.254.1.1", neverEver, "link-local"},
	{"64:ff9b::169.254.1.1", neverEver, "it carries 169.254.1.1, link-local"},

	// Cloud metadata.
	{"169.254.169.254", neverEver, "cloud metadata service 169.254.169.254/32"},
	{"169.254.170.2", neverEver, "cloud metadata"},
	{"168.63.129.16", neverEver, "cloud metadata"},
	{"100.100.100.200", neverEver, "cloud metadata"},
	{"192.0.0.192", neverEver, "cloud metadata"},
	{"fd00:ec2::254", neverEver, "cloud metadata"},
	{"fd00:ec2::23", neverEver, "cloud metadata"},
	{"fd20:ce::254", neverEver, "cloud metadata"},
	{"fd00:c1::a9fe:a9fe", neverEver, "cloud metadata"},
	{"fd00:a9fe:a9fe::1", neverEver, "cloud metadata"},
	{"fd00:42::42", neverEver, "cloud metadata"},
	{"::ffff:169.254.169.254", neverEver, "cloud metadata"},
	{"::ffff:a9fe:a9fe", neverEver, "cloud metadata"},
	{"::ffff:100.100.100.200", neverEver, "cloud metadata"},
	{"64:ff9b::169.254.169.254", neverEver, "it carries 169.254.169.254, cloud metadata"},
	{"64:ff9b::a83f:8110", neverEver, "it carries 168.63.129.16"},
	{"64:ff9b:1::169.254.169.254", neverEver, "it carries 169.254.169.254"},
	{"64:ff9b:1:a9fe:a9:fe00::", neverEver, "it carries 169.254.169.254"}, // /48
	{"64:ff9b:1:fa9:fe:a9fe::", neverEver, "it carries"},                  // /56
	{"64:ff9b:1:abcd:a9:fea9:fe00:0", neverEver, "it carries"},            // /64
	{"2002:a9fe:a9fe::1", neverEver, "it carries 169.254.169.254"},
	{"2002:6464:64c8::1", neverEver, "it carries 100.100.100.200"},
	{"2001:0:a9fe:a9fe::1", neverEver, "it carries 169.254.169.254"},          // Teredo server
	{"2001:0:4136:e378:8000:63bf:5601:5601", neverEver, "it carries 169.254"}, // Teredo client
	{"::169.254.169.254", neverEver, "it carries 169.254.169.254"},
	{"::ffff:0:169.254.169.254", neverEver, "it carries 169.254.169.254"},
	{"2a00:1450::5efe:169.254.169.254", neverEver, "it carries 169.254.169.254"}, // ISATAP
	{"2a00:1450::200:5efe:a9fe:a9fe", neverEver, "it carries 169.254.169.254"},

	// Unspecified, multicast, broadcast.
	{"0.0.0.0", neverEver, "unspecified address 0.0.0.0/8"},
	{"0.1.2.3", neverEver, "unspecified"},
	{"::", neverEver, "unspecified address ::/128"},
	{"::ffff:0.0.0.0", neverEver, "unspecified"},
	{"64:ff9b::", neverEver, "it carries 0.0.0.0"},
	{"2002::", neverEver, "it carries 0.0.0.0"},
	{"224.0.0.1", neverEver, "multicast"},
	{"239.255.255.255", neverEver, "multicast"},
	{"255.255.255.255", neverEver, "broadcast"},
	{"ff02::1", neverEver, "multicast"},
	{"ff0e::1", neverEver, "multicast"},
	{"64:ff9b::224.0.0.1", neverEver, "it carries 224.0.0.1, multicast"},
}

var everything = Policy{AllowLoopback: true, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

func TestPolicy(t *testing.T) {
	if len(addresses) < 60 {
		t.Errorf("only %d addresses", len(addresses))
	}
	for _, tt := range addresses {
		addr := netip.MustParseAddr(tt.addr)
		checkPolicy(t, "the zero policy", Policy{}, addr, tt.kind == public, tt.rule)
		checkPolicy(t, "a policy with loopback", Policy{AllowLoopback: true}, addr, tt.kind <= byLoop, tt.rule)
		checkPolicy(t, "a policy with everything", everything, addr, tt.kind < neverEver, tt.rule)
		alone := addr.WithZone("").Unmap()
		exactly := Policy{Allow: []netip.Prefix{netip.PrefixFrom(alone, alone.BitLen())}}
		if kind := tt.kind; !strings.HasPrefix(tt.rule, "it carries") {
			checkPolicy(t, "a policy with just it", exactly, addr, kind < neverEver, tt.rule)
		}
	}
}

func checkPolicy(t *testing.T, name string, p Policy, addr netip.Addr, allowed bool, rule string) {
	t.Helper()
	err := p.Check(addr)
	if allowed {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	var refusal *PolicyError
	if !errors.As(err, &refusal) {
		t.Errorf("%s: %v: error %v, want a refusal", name, addr, err)
		return
	}
	if refusal.Addr != addr || !strings.Contains(refusal.Rule, rule) {
		t.Errorf("%s: %v: refused as %v by %q, want %q", name, addr, refusal.Addr, refusal.Rule, rule)
	}
	if text := err.Error(); !strings.Contains(text, refusal.Rule) || !strings.Contains(text, addr.String()) {
		t.Errorf("%s: %v: %q does not contain the rule or the address", name, addr, text)
	}
}

// TestPolicySettingHelps checks that the setting named by an error allows the address.
func TestPolicySettingHelps(t *testing.T) {
	for _, tt := range addresses {
		addr := netip.MustParseAddr(tt.addr)
		var refusal *PolicyError
		if !errors.As(Policy{}.Check(addr), &refusal) {
			continue
		}
		if tt.kind == neverEver {
			if refusal.Setting != "" || !strings.HasSuffix(refusal.Error(), "no setting allows it") {
				t.Errorf("%v: has a setting: %v", addr, refusal)
			}
			continue
		}
		_, list, ok := strings.Cut(refusal.Setting, `egress.allow: ["`)
		prefix, rest, _ := strings.Cut(list, `"]`)
		p, err := netip.ParsePrefix(prefix)
		if !ok || err != nil {
			t.Errorf("%v: the setting is %q", addr, refusal.Setting)
			continue
		}
		if err := (Policy{Allow: []netip.Prefix{p}}).Check(addr); err != nil {
			t.Errorf("with %s: %v", refusal.Setting, err)
		}
		if (tt.kind == byLoop) != strings.Contains(rest, "dev mode") {
			t.Errorf("%v: the setting is %q", addr, refusal.Setting)
		}
	}
}

func TestPolicyAllow(t *testing.T) {
	for _, tt := range []struct {
		allow, addr string
		want        bool
	}{
		{"10.1.0.0/16", "10.1.2.3", true},
		{"10.1.0.0/16", "10.2.0.1", false},
		{"10.1.0.0/16", "::ffff:10.1.2.3", true},
		{"::ffff:10.1.0.0/112", "10.1.2.3", true},
		{"::ffff:10.1.0.0/112", "10.2.2.3", false},
		{"10.1.0.0/16", "64:ff9b::10.1.2.3", true},
		{"fd12::/16", "fd12::1", true},
		{"fd00::/8", "fd00:ec2::254", false},
		{"100.64.0.0/10", "100.100.100.200", false},
		{"169.254.0.0/16", "169.254.1.1", false},
		{"0.0.0.0/0", "fd12::1", false},
		{"2002::/16", "2002:0a00:1::1", false}, // the embedded address is refused
	} {
		p := Policy{Allow: []netip.Prefix{netip.MustParsePrefix(tt.allow)}}
		if err := p.Check(netip.MustParseAddr(tt.addr)); (err == nil) != tt.want {
			t.Errorf("%s allowed, %s: error %v", tt.allow, tt.addr, err)
		}
	}
	if err := everything.Check(netip.Addr{}); err == nil {
		t.Error("the zero address is allowed")
	}
	odd := Policy{Allow: []netip.Prefix{{}}}
	if err := odd.Check(netip.MustParseAddr("10.0.0.1")); err == nil {
		t.Error("the zero prefix allows an address")
	}
}

// TestHostForms uses hosts that some resolvers accept as addresses.
func TestHostForms(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1":              "127.0.0.1",
		"127.0.0.1.":             "127.0.0.1",
		"127.1":                  "127.0.0.1",
		"127.0.1":                "127.0.0.1",
		"0":                      "0.0.0.0",
		"0x0":                    "0.0.0.0",
		"2130706433":             "127.0.0.1",
		"017700000001":           "127.0.0.1",
		"0x7f000001":             "127.0.0.1",
		"0X7F.1":                 "127.0.0.1",
		"0177.0.0.1":             "127.0.0.1",
		"0177.0.0.01":            "127.0.0.1",
		"0x7f.0x0.0x0.0x1":       "127.0.0.1",
		"0x7f.1":                 "127.0.0.1",
		"2852039166":             "169.254.169.254",
		"0xa9fea9fe":             "169.254.169.254",
		"0251.0376.0251.0376":    "169.254.169.254",
		"169.254.43518":          "169.254.169.254",
		"169.16689662":           "169.254.169.254",
		"0x0a000001":             "10.0.0.1",
		"::1":                    "::1",
		"::ffff:169.254.169.254": "::ffff:169.254.169.254",
		"fe80::1%eth0":           "fe80::1%eth0",
	} {
		var refusal *PolicyError
		if err := (Policy{}).CheckHost(host); !errors.As(err, &refusal) || refusal.Addr.String() != want {
			t.Errorf("%s: error %v, want a refusal of %s", host, err, want)
		}
	}
	for _, host := range []string{
		"example.com", "localhost", "", ".", "1.2.3.4.5", "256.256.256.256", "4294967296", "0x", "08", "1.2.3.256", "127.0.0.1.example.com",
		"0x1_0", "+127.0.0.1", "127.0.0.-1", "127..1", "1.1.1.1", "16843009", "0x01010101", "99999999999999999999999",
	} {
		if err := (Policy{}).CheckHost(host); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	}
}

func FuzzPolicy(f *testing.F) {
	for _, tt := range addresses {
		a := netip.MustParseAddr(tt.addr).AsSlice()
		f.Add(a)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		addr, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return
		}
		strict, loose := Policy{}.Check(addr), everything.Check(addr)
		if strict == nil && loose != nil {
			t.Errorf("%v: allowing more refuses it: %v", addr, loose)
		}
		if loose != nil && !neverAllowed(loose) {
			t.Errorf("%v: everything is allowed, but not: %v", addr, loose)
		}
		// Compare with the standard library.
		a := addr.Unmap()
		if inner := a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified(); inner && strict == nil {
			t.Errorf("%v is allowed", addr)
		}
	})
}
