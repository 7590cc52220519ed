package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Secrets and key pairs for tests.
var (
	symmetric    = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	privateKey   = ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
	private      = "whsk_" + base64.StdEncoding.EncodeToString(privateKey)
	seed         = "whsk_" + base64.StdEncoding.EncodeToString(privateKey.Seed())
	publicSecret = "whpk_" + base64.StdEncoding.EncodeToString(privateKey.Public().(ed25519.PublicKey))
)

func TestSignStandard(t *testing.T) {
	// The first case is the example in the specification.
	const id, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", `{"test": 2432232314}`
	at := time.Unix(1614265330, 999e6)
	for secret, want := range map[string]string{
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		private:                                  "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(privateKey, []byte(id+".1614265330."+body))),
		seed:                                     "v1a," + base64.StdEncoding.EncodeToString(ed25519.Sign(privateKey, []byte(id+".1614265330."+body))),
	} {
		if got, err := SignStandard(secret, id, at, []byte(body)); got != want || err != nil {
			t.Errorf("with %s: %s, %v; want %s", secret, got, err, want)
		}
	}
	raw, err := SignStandard("0123456789abcdef0123456789abcdef", id, at, []byte(body))
	if same, _ := SignStandard(symmetric, id, at, []byte(body)); raw != same || err != nil {
		t.Errorf("the secret signs %s, its base64 %s; %v", raw, same, err)
	}
	for secret, want := range map[string]string{
		"": "no shared secret", "whsec_": "not whsec_ followed by base64", "whsec_?": "openssl rand -base64 32",
		"whsk_YQ==": "not whsk_ followed by the base64 of an Ed25519 private key", publicSecret: "a public key, which cannot sign",
	} {
		if _, err := SignStandard(secret, id, at, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: error %v, want %s", secret, err, want)
		}
	}
}

// standardHeader returns the headers for a body, signed with the secrets.
func standardHeader(t *testing.T, at time.Time, body string, secrets ...string) http.Header {
	t.Helper()
	h := http.Header{StandardIDHeader: {"m1"}, StandardTimestampHeader: {strconv.FormatInt(at.Unix(), 10)}}
	var all []string
	for _, secret := range secrets {
		s, err := SignStandard(secret, "m1", at, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if len(all) > 0 {
		h.Set(StandardSignatureHeader, strings.Join(all, " "))
	}
	return h
}

func TestVerifyStandard(t *testing.T) {
	const body = `{"type":"identify"}`
	now := time.Now()
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	good := standardHeader(t, now, body, symmetric)
	for _, tt := range []struct {
		name, secret, body string
		header             http.Header
		want               error
	}{
		{"good", symmetric, body, good, nil},
		{"by a key", publicSecret, body, standardHeader(t, now, body, private), nil},
		{"by who signs", private, body, standardHeader(t, now, body, seed), nil},
		{"the second of two", symmetric, body, standardHeader(t, now, body, "another", symmetric), nil},
		{"a key among others", publicSecret, body, standardHeader(t, now, body, symmetric, private), nil},
		{"of a version to come", symmetric, body, with(good, StandardSignatureHeader, "v2,xyz "+good.Get(StandardSignatureHeader)), nil},
		{"almost too old", symmetric, body, standardHeader(t, now.Add(-Tolerance+30*time.Second), body, symmetric), nil},
		{"too old", symmetric, body, standardHeader(t, now.Add(-Tolerance-2*time.Second), body, symmetric), ErrOldTimestamp},
		{"of the future", symmetric, body, standardHeader(t, now.Add(Tolerance+30*time.Second), body, symmetric), ErrOldTimestamp},
		{"no secret", "", body, good, ErrNoSecret},
		{"no signature", symmetric, body, standardHeader(t, now, body), ErrNoSignature},
		{"an X-Signature alone", symmetric, body, http.Header{SignatureHeader: {Sign(symmetric, []byte(body))}}, ErrNoSignature},
		{"no id", symmetric, body, with(good, StandardIDHeader, ""), ErrMalformedStandard},
		{"no timestamp", symmetric, body, with(good, StandardTimestampHeader, ""), ErrMalformedStandard},
		{"a date", symmetric, body, with(good, StandardTimestampHeader, now.Format(http.TimeFormat)), ErrMalformedStandard},
		{"a huge timestamp", symmetric, body, with(good, StandardTimestampHeader, "9223372036854775807"), ErrOldTimestamp},
		{"another secret", "another", body, good, ErrWrongStandard},
		{"another id", symmetric, body, with(good, StandardIDHeader, "m2"), ErrWrongStandard},
		{"another timestamp", symmetric, body, with(good, StandardTimestampHeader, strconv.FormatInt(now.Unix()-1, 10)), ErrWrongStandard},
		{"another body", symmetric, body + " ", good, ErrWrongStandard},
		{"without a version", symmetric, body, with(good, StandardSignatureHeader, strings.TrimPrefix(good.Get(StandardSignatureHeader), "v1,")), ErrWrongStandard},
		{"not base64", symmetric, body, with(good, StandardSignatureHeader, "v1,???"), ErrWrongStandard},
		{"one of a secret for a key", publicSecret, body, good, ErrWrongStandard},
		{"too many", symmetric, body, with(good, StandardSignatureHeader, strings.Repeat("v1,YQ== ", maxSignatures)+good.Get(StandardSignatureHeader)), ErrWrongStandard},
	} {
		if err := VerifyStandard(tt.secret, []byte(tt.body), tt.header); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestVerifyRequestAcceptsEitherSignature(t *testing.T) {
	const body = `{"type":"identify"}`
	service := http.Header{SignatureHeader: {Sign("old", []byte(body))}}
	standard := standardHeader(t, time.Now(), body, "old")
	stale := standardHeader(t, time.Now().Add(-time.Hour), body, "old")
	stale.Set(SignatureHeader, Sign("old", []byte(body)))
	for _, tt := range []struct {
		name    string
		header  http.Header
		secrets []string
		want    error
	}{
		{"service", service, []string{"old"}, nil},
		{"standard", standard, []string{"old"}, nil},
		{"service, another secret first", service, []string{"new", "old"}, nil},
		{"standard, another secret first", standard, []string{"new", "old"}, nil},
		{"another secret alone", standard, []string{"new"}, ErrWrongStandard},
		{"both, and too old", stale, []string{"old"}, ErrOldTimestamp},
		{"neither", http.Header{}, []string{"old"}, ErrNoSignature},
		{"no secrets", service, nil, ErrNoSecret},
	} {
		if err := VerifyRequest([]byte(body), tt.header, tt.secrets...); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header = tt.header
		if len(tt.secrets) == 0 {
			continue
		}
		w := httptest.NewRecorder()
		Handler(tt.secrets[0], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), tt.secrets[1:]...).ServeHTTP(w, r)
		if ok := w.Code == http.StatusOK; ok != (tt.want == nil) {
			t.Errorf("%s: the handler answers %d", tt.name, w.Code)
		}
	}
}

func TestValidateSigning(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings Settings
		want     []string // expected errors
	}{
		{"service with any text", Settings{SharedSecret: "whsec_?"}, nil},
		{"standard", Settings{SharedSecret: symmetric, Signature: SignatureStandard}, nil},
		{"standard by a key, and the secret before", Settings{SharedSecret: private, PreviousSecret: symmetric, Signature: SignatureStandard}, nil},
		{"both", Settings{SharedSecret: "any text", PreviousSecret: "another", Signature: SignatureBoth}, nil},
		{"two secrets of the service", Settings{SharedSecret: "a", PreviousSecret: "b"}, []string{"previousSecret: cannot be used with"}},
		{"no secret", Settings{Signature: SignatureStandard}, []string{"sharedSecret: is empty"}},
		{"unknown", Settings{SharedSecret: "a", Signature: "md5"}, []string{`signature: is "md5": use "service"`}},
		{"not base64", Settings{SharedSecret: "whsec_?", Signature: SignatureBoth}, []string{"sharedSecret: cannot sign: the secret is not whsec_"}},
		{"public key", Settings{SharedSecret: "a", PreviousSecret: publicSecret, Signature: SignatureStandard}, []string{"previousSecret: is a public key"}},
		{"key for both", Settings{SharedSecret: private, Signature: SignatureBoth}, []string{"sharedSecret: is a private key"}},
		{"the same twice", Settings{SharedSecret: "a", PreviousSecret: "a", Signature: SignatureBoth}, []string{"previousSecret: is the shared secret"}},
	} {
		tt.settings.Webhooks = []Endpoint{{URL: "https://example.com/hook"}}
		found := fieldErrors(t, tt.settings.Validate())
		if len(found) != len(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, found, tt.want)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(found[i].Error(), want) {
				t.Errorf("%s: %v, want %s", tt.name, found[i], want)
			}
		}
	}
}

// FuzzVerifyStandard searches for input that causes a panic, and for signatures that also match
// another body.
func FuzzVerifyStandard(f *testing.F) {
	f.Add(symmetric, "m1", "1614265330", "v1,YQ==")
	f.Add(publicSecret, "m.1", "-1", "v1a,YQ== v1,YQ==")
	f.Add("whsk_", "", "99999999999999999999", " ")
	f.Fuzz(func(t *testing.T, secret, id, timestamp, signature string) {
		h := http.Header{StandardIDHeader: {id}, StandardTimestampHeader: {timestamp}, StandardSignatureHeader: {signature}}
		if err := VerifyStandard(secret, []byte(t.Name()+strconv.FormatInt(time.Now().UnixNano(), 10)), h); err == nil {
			t.Errorf("%q verifies", signature)
		}
		now := time.Now()
		made, err := SignStandard(secret, id, now, []byte(signature))
		if err != nil || id == "" {
			return
		}
		h.Set(StandardTimestampHeader, strconv.FormatInt(now.Unix(), 10))
		h.Set(StandardSignatureHeader, made)
		if err := VerifyStandard(secret, []byte(signature), h); err != nil {
			t.Errorf("the signature with %q does not verify: %v", secret, err)
		}
	})
}

func ExampleVerifyStandard() {
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := []byte(`{"type":"track","event":"Signed Up"}`)
	now := time.Now()
	signature, _ := SignStandard(secret, "msg-1", now, body) // the collector signs like this

	header := http.Header{}
	header.Set(StandardIDHeader, "msg-1")
	header.Set(StandardTimestampHeader, strconv.FormatInt(now.Unix(), 10))
	header.Set(StandardSignatureHeader, signature)

	fmt.Println(VerifyStandard(secret, body, header))
	fmt.Println(VerifyStandard(secret, []byte(`{}`), header))
	// Output:
	// <nil>
	// webhook: no webhook-signature matches the body, the id and the timestamp: the secrets differ, or one of these was changed
}
