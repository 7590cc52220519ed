package sender

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A nameServer is a DNS server on loopback. Its responses depend on the name and the number of
// earlier queries for the name.
type nameServer struct {
	answer func(name string, queries int) []netip.Addr

	mu      sync.Mutex // guards queries
	queries map[string]int
}

// resolver starts the server and returns a resolver that uses only this server.
func (s *nameServer) resolver(t *testing.T) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.queries = make(map[string]int)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(s.reply(buf[:n]), from)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func (s *nameServer) lookups(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queries[name]
}

// reply responds to a query (RFC 1035, 4.1) with A records, or that the name does not exist.
func (s *nameServer) reply(query []byte) []byte {
	var labels []string
	i := 12
	for query[i] != 0 {
		labels = append(labels, string(query[i+1:i+1+int(query[i])]))
		i += 1 + int(query[i])
	}
	name, isA := strings.Join(labels, "."), query[i+2] == 1
	s.mu.Lock()
	queries := s.queries[name]
	if isA {
		s.queries[name]++
	}
	s.mu.Unlock()

	addrs := s.answer(name, queries)
	reply := append([]byte(nil), query[:i+5]...)
	copy(reply[2:], []byte{0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}) // a response with one question
	if len(addrs) == 0 {
		reply[3] = 3 // no such name
	}
	if isA {
		binary.BigEndian.PutUint16(reply[6:], uint16(len(addrs)))
		for _, a := range addrs {
			reply = append(reply, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, a.AsSlice()...)
		}
	}
	return reply
}

func addrs(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// A receiver is a server that counts connections and requests.
type receiver struct {
	*httptest.Server
	port            string
	conns, requests atomic.Int32
}

func newReceiver(t *testing.T, h http.HandlerFunc) *receiver {
	t.Helper()
	r := new(receiver)
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		h(w, req)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.conns.Add(1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	_, r.port, _ = net.SplitHostPort(r.Listener.Addr().String())
	return r
}

func newTestSender(t *testing.T, config webhook.SenderConfig) *Sender {
	t.Helper()
	s, err := New(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// post sends a small request to a URL.
func post(t *testing.T, s *Sender, url string) webhook.Attempt {
	t.Helper()
	return s.Send(t.Context(), Request{Endpoint: webhook.Endpoint{URL: url}, Body: []byte(`{}`), MessageID: "m1", Number: 1})
}

// checkAttempt checks the result of an attempt. text is a part of its error.
func checkAttempt(t *testing.T, a webhook.Attempt, v webhook.Verdict, r webhook.Reason, text string) {
	t.Helper()
	if a.Verdict != v || a.Reason != r || !strings.Contains(a.Error, text) || (a.Error == "") != (v == webhook.Success) {
		t.Errorf("%s: %v, %q: %s\nwant %v, %q: %s", a.URL, a.Verdict, a.Reason, a.Error, v, r, text)
	}
}

// The name first resolves to an allowed address, and then to a forbidden one.
func TestChangingDNSRecord(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
	dns := &nameServer{answer: func(_ string, queries int) []netip.Addr {
		if queries == 0 {
			return addrs("127.0.0.1")
		}
		return addrs("169.254.169.254")
	}}
	s := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, Resolver: dns.resolver(t)})

	checkAttempt(t, post(t, s, "http://rebind.example:"+r.port), webhook.Success, "", "")
	if n := dns.lookups("rebind.example"); n != 1 {
		t.Errorf("%d lookups for one connection: the checked address must be the dialed one", n)
	}
	checkAttempt(t, post(t, s, "http://rebind.example:"+r.port), webhook.Permanent, webhook.ReasonPolicy, "169.254.169.254 is refused: cloud metadata service")
	if n := dns.lookups("rebind.example"); n != 2 {
		t.Errorf("%d lookups for two connections", n)
	}
	if n := r.requests.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestNameWithSeveralAddresses(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	closed := closedPort(t)
	dns := &nameServer{answer: func(name string, _ int) []netip.Addr {
		return map[string][]netip.Addr{
			"mixed.example":   addrs("10.0.0.1", "127.0.0.1"),
			"refused.example": addrs("10.0.0.1", "192.168.0.1"),
			"first.example":   addrs("127.0.0.2", "127.0.0.1"),
		}[name]
	}}
	resolver := dns.resolver(t)
	s := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, Resolver: resolver})
	checkAttempt(t, post(t, s, "http://mixed.example:"+r.port), webhook.Success, "", "")
	checkAttempt(t, post(t, s, "http://mixed.example:"+closed), webhook.Temporary, webhook.ReasonConnection, "could not connect")
	checkAttempt(t, post(t, s, "http://refused.example:"+r.port), webhook.Permanent, webhook.ReasonPolicy, "private network")
	checkAttempt(t, post(t, s, "http://missing.example:"+r.port), webhook.Temporary, webhook.ReasonDNS, "the host missing.example did not resolve: no such host")

	// The first address is refused, and the second one is down.
	one := webhook.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	s = newTestSender(t, webhook.SenderConfig{Policy: one, Resolver: resolver})
	checkAttempt(t, post(t, s, "http://first.example:"+r.port), webhook.Success, "", "")
	checkAttempt(t, post(t, s, "http://first.example:"+closed), webhook.Temporary, webhook.ReasonConnection, "none of its allowed addresses could be reached")
}

// closedPort returns a loopback port that is closed during the test.
func closedPort(t *testing.T) string {
	t.Helper()
	address, closeIt, err := harness.ClosedPort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closeIt() })
	_, port, _ := net.SplitHostPort(address)
	return port
}

// TestSendObeysPolicy checks every notation of a loopback address.
func TestSendObeysPolicy(t *testing.T) {
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	dns := &nameServer{answer: func(string, int) []netip.Addr { return addrs("127.0.0.1") }}
	resolver := dns.resolver(t)
	strict := newTestSender(t, webhook.SenderConfig{Resolver: resolver})
	for _, host := range []string{
		"127.0.0.1", "127.0.0.1.", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "０x7f000001", "１２７.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[::1]", "localhost", "name.example", "[64:ff9b::7f00:1]",
	} {
		a := post(t, strict, "http://"+host+":"+r.port+"/")
		checkAttempt(t, a, webhook.Permanent, webhook.ReasonPolicy, "loopback network")
		if a.Status != 0 || a.RequestHeader == nil {
			t.Errorf("%s: %+v", host, a)
		}
	}
	for _, host := range []string{"0.0.0.0", "0", "[::]", "[::ffff:0.0.0.0]", "169.254.169.254", "[fe80::1%25lo]", "0xa9fea9fe"} {
		checkAttempt(t, post(t, strict, "http://"+host+":"+r.port+"/"), webhook.Permanent, webhook.ReasonPolicy, "no setting allows it")
	}
	if n := r.conns.Load(); n != 0 {
		t.Errorf("%d connections were made", n)
	}

	dev := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, Resolver: resolver})
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "name.example"} {
		checkAttempt(t, post(t, dev, "http://"+host+":"+r.port+"/"), webhook.Success, "", "")
	}
	allowed := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}})
	checkAttempt(t, post(t, allowed, r.URL), webhook.Success, "", "")
}

func TestProxy(t *testing.T) {
	proxy := newReceiver(t, func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.Method + " " + r.RequestURI))
	})
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	dns := &nameServer{answer: func(name string, _ int) []netip.Addr {
		return map[string][]netip.Addr{
			"private.example": addrs("1.1.1.1", "10.0.0.1"),
			"public.example":  addrs("1.1.1.1"),
		}[name]
	}}
	config := webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, Resolver: dns.resolver(t), Proxy: http.ProxyURL(proxyURL)}
	s := newTestSender(t, config)

	for target, rule := range map[string]string{
		"http://10.0.0.1/":          "private network",
		"http://0x0a000001/":        "private network",
		"http://2852039166/":        "cloud metadata",
		"https://169.254.169.254/":  "cloud metadata",
		"http://[fd00:ec2::254]/":   "cloud metadata",
		"http://private.example/":   "private network",
		"https://private.example/x": "private network",
	} {
		checkAttempt(t, post(t, s, target), webhook.Permanent, webhook.ReasonPolicy, rule)
	}
	checkAttempt(t, post(t, s, "http://１０.0.0.1/"), webhook.Permanent, webhook.ReasonRequest, "must be in ASCII")
	if n := proxy.conns.Load(); n != 0 {
		t.Errorf("the proxy got %d connections for refused addresses", n)
	}
	for _, host := range []string{"public.example", "known-to-the-proxy.example", "1.1.1.1"} {
		a := post(t, s, "http://"+host+"/hook")
		checkAttempt(t, a, webhook.Success, "", "")
		if want := "POST http://" + host + "/hook"; string(a.ResponseBody) != want {
			t.Errorf("the proxy got %s, want %s", a.ResponseBody, want)
		}
	}

	config.Policy = webhook.Policy{}
	strict := newTestSender(t, config)
	checkAttempt(t, post(t, strict, "http://public.example/"), webhook.Permanent, webhook.ReasonPolicy, "loopback network") // the proxy's address
}

func TestProxyEnvironmentIsIgnored(t *testing.T) {
	proxy := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	direct := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	dns := &nameServer{answer: func(string, int) []netip.Addr { return addrs("127.0.0.1") }}
	s := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, Resolver: dns.resolver(t)})
	checkAttempt(t, post(t, s, "http://hook.example:"+direct.port), webhook.Success, "", "")
	if direct.requests.Load() != 1 || proxy.conns.Load() != 0 {
		t.Errorf("%d direct requests, %d connections to the proxy", direct.requests.Load(), proxy.conns.Load())
	}
}
