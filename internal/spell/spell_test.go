package spell

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"listen", "listen", 0}, {"lisen", "listen", 1},
		{"sned", "send", 1}, {"kitten", "sitting", 3}, {"Order Completed", "order_completed", 3},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}

func TestClosest(t *testing.T) {
	known := []string{"listen", "Send", "sand"}
	for _, c := range []struct {
		name, want string
	}{
		{"lisen", "listen"}, {"SEND", "Send"}, {"sond", "Send"}, {"sondes", ""}, {"sand", "sand"}, {"", ""}, {"--", ""},
		{"se_nd", "Send"}, {"li", ""}, {"lissten_to", ""}, {"Listened", "listen"}, {strings.Repeat("-", 200) + "send", ""},
	} {
		if got := Closest(c.name, known); got != c.want {
			t.Errorf("Closest(%q) = %q, want %q", c.name, got, c.want)
		}
	}
}

func TestProtocol(t *testing.T) {
	for _, c := range []struct{ address, protocol, host string }{
		{"localhost:8080", "http://", "localhost:8080"},
		{"127.0.0.1/hook", "http://", "127.0.0.1"},
		{"[::1]:80", "http://", "[::1]:80"},
		{"collector:8080/v1?a=b", "http://", "collector:8080"},
		{"10.0.0.1:80", "http://", "10.0.0.1:80"},
		{"App.Localhost", "http://", "App.Localhost"},
		{"host.docker.internal:3000", "http://", "host.docker.internal:3000"},
		{"c.default.svc.cluster.local", "http://", "c.default.svc.cluster.local"},
		{"example.com?token=secret", "https://", "example.com"},
		{"example.com:443", "https://", "example.com:443"},
		{"203.0.113.5", "https://", "203.0.113.5"},
		{"[2001:db8::1]", "https://", "[2001:db8::1]"},
		{address: ""}, {address: "/v1"}, {address: "//example.com"}, {address: ":8080"}, {address: "://x"},
		{address: "http:/example.com"}, {address: "http:example.com"}, {address: "http://example.com"}, {address: "ftp://localhost"},
		{address: "user:secret@example.com"}, {address: "exa mple.com"}, {address: "example.com:port"}, {address: "b\u202ecom"},
		{address: strings.Repeat("a", 101)},
	} {
		if protocol, host := Protocol(c.address); protocol != c.protocol || host != c.host {
			t.Errorf("Protocol(%q) = %q, %q, want %q, %q", c.address, protocol, host, c.protocol, c.host)
		}
	}
}
