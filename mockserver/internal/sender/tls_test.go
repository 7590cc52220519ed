package sender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// An authority is a certificate authority for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// template returns the template of a valid certificate for 127.0.0.1.
func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-48 * time.Hour),
		NotAfter:     time.Now().Add(48 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

func authorityTemplate(name string) *x509.Certificate {
	c := template(name)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	return c
}

func create(t *testing.T, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key := newKey(t)
	c := authorityTemplate(name)
	return &authority{cert: create(t, c, c, key, key), key: key}
}

// issue returns a server certificate signed by the authority.
func (a *authority) issue(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	leaf := create(t, template, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

func selfSigned(t *testing.T, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key := newKey(t)
	leaf := create(t, template, template, key, key)
	return tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
}

// caFile writes certificates to a PEM file.
func caFile(t *testing.T, certs ...*x509.Certificate) string {
	t.Helper()
	var text []byte
	for _, c := range certs {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A tlsReceiver is a server on real sockets that reports the number of received bytes.
type tlsReceiver struct {
	url  string
	read chan int // receives the number of bytes read from each closed connection
}

func newTLSReceiver(t *testing.T, config *tls.Config) *tlsReceiver {
	t.Helper()
	r := &tlsReceiver{read: make(chan int, 10)}
	r.url = "https://" + listen(t, func(conn net.Conn) { r.serve(tls.Server(conn, config)) }) + "/hook"
	return r
}

// serve responds to one request.
func (r *tlsReceiver) serve(conn *tls.Conn) {
	buf := make([]byte, 64<<10)
	n, err := conn.Read(buf)
	if err == nil {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		conn.Close()
	}
	r.read <- n
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t, "Our CA"), newAuthority(t, "Another CA")
	nameless := newAuthority(t, "")
	self := selfSigned(t, template("receiver"))
	selfCA := selfSigned(t, authorityTemplate("receiver and authority"))
	sha1 := template("receiver")
	sha1.SignatureAlgorithm = x509.ECDSAWithSHA1
	selfSHA1 := selfSigned(t, sha1)
	expired := template("expired")
	expired.NotAfter = time.Date(2024, 5, 17, 10, 20, 30, 0, time.UTC)
	expired.NotBefore = expired.NotAfter.Add(-time.Hour)
	early := template("early")
	early.NotBefore = time.Date(2199, 5, 17, 10, 20, 30, 0, time.UTC)
	early.NotAfter = early.NotBefore.Add(time.Hour)
	wrongHost := template("wrong host")
	wrongHost.IPAddresses, wrongHost.DNSNames = nil, []string{"a.example", "b.example"}
	client := template("client")
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	namedLikeCA := template("Our CA")
	nobody := template("")
	pinned := other.issue(t, template("pinned"))

	tests := []struct {
		name    string
		cert    tls.Certificate
		trusted []*x509.Certificate // certificates in the CA file
		verdict webhook.Verdict
		reason  webhook.Reason
		text    string
	}{
		{"private CA", ca.issue(t, template("receiver")), []*x509.Certificate{ca.cert}, webhook.Success, "", ""},
		{"second in the file", ca.issue(t, template("receiver")), []*x509.Certificate{other.cert, ca.cert}, webhook.Success, "", ""},
		{"leaf named as its CA", ca.issue(t, namedLikeCA), []*x509.Certificate{ca.cert}, webhook.Success, "", ""},
		{"leaf and CA without names", nameless.issue(t, nobody), []*x509.Certificate{nameless.cert}, webhook.Success, "", ""},
		{"leaf in the file, signed by another", pinned, []*x509.Certificate{pinned.Leaf}, webhook.Success, "", ""},
		{"self-signed", self, nil, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"self-signed, beside a CA", self, []*x509.Certificate{ca.cert}, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"self-signed, in the file", self, []*x509.Certificate{self.Leaf}, webhook.Permanent, webhook.ReasonSelfSigned, "no request was sent"},
		{"self-signed CA as leaf", selfCA, nil, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"self-signed CA as leaf, in the file", selfCA, []*x509.Certificate{selfCA.Leaf}, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"self-signed by SHA-1, in the file", selfSHA1, []*x509.Certificate{selfSHA1.Leaf}, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"self-signed and expired", selfSigned(t, expired), nil, webhook.Permanent, webhook.ReasonSelfSigned, "self-signed"},
		{"unknown CA", other.issue(t, template("receiver")), []*x509.Certificate{ca.cert}, webhook.Temporary, webhook.ReasonCertificate, "signed by an unknown authority (CN=Another CA)"},
		{"no file", ca.issue(t, template("receiver")), nil, webhook.Temporary, webhook.ReasonCertificate, "signed by an unknown authority (CN=Our CA)"},
		{"expired", ca.issue(t, expired), []*x509.Certificate{ca.cert}, webhook.Temporary, webhook.ReasonCertificate, "the certificate expired on 2024-05-17T10:20:30Z"},
		{"not yet valid", ca.issue(t, early), []*x509.Certificate{ca.cert}, webhook.Temporary, webhook.ReasonCertificate, "the certificate is not valid before 2199-05-17T10:20:30Z"},
		{"wrong host", ca.issue(t, wrongHost), []*x509.Certificate{ca.cert}, webhook.Temporary, webhook.ReasonCertificate, "not for the host 127.0.0.1 but for a.example, b.example"},
		{"for clients", ca.issue(t, client), []*x509.Certificate{ca.cert}, webhook.Temporary, webhook.ReasonCertificate, "the certificate is not valid: "},
	}
	for _, tt := range tests {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			t.Run(tt.name+"/"+tls.VersionName(version), func(t *testing.T) {
				r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{tt.cert}, MinVersion: version, MaxVersion: version})
				config := webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}}
				if tt.trusted != nil {
					config.CAFile = caFile(t, tt.trusted...)
				}
				a := post(t, newTestSender(t, config), r.url)
				checkAttempt(t, a, tt.verdict, tt.reason, tt.text)
				if n := <-r.read; (n > 0) != (tt.verdict == webhook.Success) {
					t.Errorf("%d bytes of the request were sent", n)
				}
				if tt.verdict == webhook.Success && string(a.ResponseBody) != "ok" {
					t.Errorf("response %q", a.ResponseBody)
				}
			})
		}
	}
}

// crypto/x509 neither creates nor verifies MD5 signatures.
func TestSelfSignedByMD5(t *testing.T) {
	for _, tt := range []struct {
		subject, issuer string
		want            bool
	}{{"receiver", "receiver", true}, {"receiver", "Our CA", false}, {"", "", false}} {
		leaf := &x509.Certificate{SignatureAlgorithm: x509.MD5WithRSA, RawSubject: []byte(tt.subject), RawIssuer: []byte(tt.issuer)}
		if tt.subject != "" {
			leaf.Subject.Names = []pkix.AttributeTypeAndValue{{}}
		}
		if got := isSelfSigned(leaf); got != tt.want {
			t.Errorf("%q issued by %q: %v", tt.subject, tt.issuer, got)
		}
	}
}

func TestTLSIntermediate(t *testing.T) {
	root := newAuthority(t, "Root CA")
	key := newKey(t)
	middle := &authority{cert: create(t, authorityTemplate("Middle CA"), root.cert, key, root.key), key: key}
	leaf := middle.issue(t, template("receiver"))
	leaf.Certificate = append(leaf.Certificate, middle.cert.Raw)
	r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{leaf}})
	s := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, CAFile: caFile(t, root.cert)})
	checkAttempt(t, post(t, s, r.url), webhook.Success, "", "")
}

func TestRootCAs(t *testing.T) {
	ca, other := newAuthority(t, "Our CA"), newAuthority(t, "Another CA")
	self := selfSigned(t, template("receiver"))
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	pool.AddCert(self.Leaf)
	s := newTestSender(t, webhook.SenderConfig{Policy: webhook.Policy{AllowLoopback: true}, RootCAs: pool, CAFile: caFile(t, other.cert)})
	for cert, verdict := range map[*tls.Certificate]webhook.Verdict{
		ptr(ca.issue(t, template("receiver"))):    webhook.Success,
		ptr(other.issue(t, template("receiver"))): webhook.Success,
		&self: webhook.Permanent,
	} {
		r := newTLSReceiver(t, &tls.Config{Certificates: []tls.Certificate{*cert}})
		if a := post(t, s, r.url); a.Verdict != verdict {
			t.Errorf("%v: %v %s, want %v", cert.Leaf.Subject, a.Verdict, a.Error, verdict)
		}
	}
	alone := x509.NewCertPool()
	alone.AddCert(ca.cert)
	alone.AddCert(self.Leaf)
	if !pool.Equal(alone) {
		t.Error("the caller's pool was changed")
	}
}

func ptr[T any](v T) *T { return &v }

func TestCAFileErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	if err := os.WriteFile(empty, []byte("-----BEGIN NOTHING-----"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "missing.pem"): "missing.pem: no such file",
		empty:                             "empty.pem contains no PEM certificate",
	} {
		if s, err := New(webhook.SenderConfig{CAFile: file}, nil); s != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestHTTPAndHTTPSMismatch checks the errors for an https URL of a server without TLS, and for an
// http URL of a server with TLS.
func TestHTTPAndHTTPSMismatch(t *testing.T) {
	plain := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	s := loopbackSender(t)
	checkAttempt(t, post(t, s, strings.Replace(plain.URL, "http:", "https:", 1)), webhook.Temporary, webhook.ReasonConnection, "does not use TLS")

	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = discardLog
	secure.StartTLS()
	defer secure.Close()
	a := post(t, s, strings.Replace(secure.URL, "https:", "http:", 1))
	checkAttempt(t, a, webhook.Permanent, webhook.ReasonStatus, "responded with 400 (Bad Request)")
}
