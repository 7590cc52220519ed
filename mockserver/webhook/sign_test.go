package webhook

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
)

func TestSign(t *testing.T) {
	// These are test cases 2 and 1 of RFC 2202, and a result of openssl dgst -sha1 -hmac.
	for _, tt := range []struct{ secret, body, want string }{
		{"Jefe", "what do ya want for nothing?", "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"},
		{strings.Repeat("\x0b", 20), "Hi There", "b617318655057264e28bc0b6fb378c8ef146be00"},
		{"key", "The quick brown fox jumps over the lazy dog", "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"},
	} {
		if got := Sign(tt.secret, []byte(tt.body)); got != tt.want {
			t.Errorf("Sign(%q, %q) = %s, want %s", tt.secret, tt.body, got, tt.want)
		}
	}
}

func TestVerify(t *testing.T) {
	const body = `{"type":"identify"}`
	good := Sign("secret", []byte(body))
	for _, tt := range []struct {
		name, secret, body, signature string
		want                          error
	}{
		{"good", "secret", body, good, nil},
		{"no secret", "", body, Sign("", []byte(body)), ErrNoSecret},
		{"no signature", "secret", body, "", ErrNoSignature},
		{"other secret", "Secret", body, good, ErrWrongSignature},
		{"other body", "secret", body + " ", good, ErrWrongSignature},
		{"empty body", "secret", "", good, ErrWrongSignature},
		{"one digit off", "secret", body, good[:39] + string("0123456789abcdef0"[strings.IndexByte("0123456789abcdef", good[39])+1]), ErrWrongSignature},
		{"too short", "secret", body, good[:39], ErrMalformedSignature},
		{"too long", "secret", body, good + "0", ErrMalformedSignature},
		{"upper case", "secret", body, strings.ToUpper(good), ErrMalformedSignature},
		{"with a prefix", "secret", body, "sha1=" + good, ErrMalformedSignature},
		{"not hexadecimal", "secret", body, strings.Repeat("g", 40), ErrMalformedSignature},
	} {
		err := Verify(tt.secret, []byte(tt.body), tt.signature)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), good) {
			t.Errorf("%s: the error contains the signature: %v", tt.name, err)
		}
	}
}

func TestHandler(t *testing.T) {
	body := `{"type":"identify"}`
	signed := http.Header{SignatureHeader: {Sign("secret", []byte(body))}}
	long := strings.Repeat("x", MaxBody+1)
	tests := []struct {
		name, secret string
		body         io.Reader
		length       int64 // -1 selects chunked encoding
		header       http.Header
		status       int
		text         string
	}{
		{"good", "secret", strings.NewReader(body), int64(len(body)), signed, 200, body},
		{"chunked", "secret", strings.NewReader(body), -1, signed, 200, body},
		{"as long as may be", "secret", strings.NewReader(long[1:]), -1, http.Header{SignatureHeader: {Sign("secret", []byte(long[1:]))}}, 200, long[1:]},
		{"wrong", "other", strings.NewReader(body), int64(len(body)), signed, 401, ErrWrongSignature.Error()},
		{"missing", "secret", strings.NewReader(body), int64(len(body)), nil, 401, ErrNoSignature.Error()},
		{"malformed", "secret", strings.NewReader(body), int64(len(body)), http.Header{SignatureHeader: {"x"}}, 401, ErrMalformedSignature.Error()},
		{"no body", "secret", nil, 0, signed, 401, ErrWrongSignature.Error()},
		{"too long and says so", "secret", strings.NewReader("x"), MaxBody + 1, signed, 413, "longer than 1048576 bytes"},
		{"too long", "secret", strings.NewReader(long), -1, signed, 413, "longer than 1048576 bytes"},
		{"incomplete", "secret", io.MultiReader(strings.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)), -1, signed, 400, "reading the body: unexpected EOF"},
		{"no secret", "", strings.NewReader(body), int64(len(body)), signed, 500, ErrNoSecret.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reached := false
			h := Handler(tt.secret, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				reached = true
				if r.Header.Get("X-Message-Id") != "m1" {
					t.Error("the request lost its header")
				}
				got, err := io.ReadAll(r.Body)
				if err != nil || int64(len(got)) != r.ContentLength {
					t.Errorf("read %d bytes of %d, error %v", len(got), r.ContentLength, err)
				}
				w.Write(got)
			}))
			r := httptest.NewRequest("POST", "/hook", tt.body)
			r.ContentLength = tt.length
			for name, values := range tt.header {
				r.Header[name] = values
			}
			r.Header.Set("X-Message-Id", "m1")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)

			if w.Code != tt.status || reached != (tt.status == 200) {
				t.Errorf("status %d, want %d; handler reached: %v", w.Code, tt.status, reached)
			}
			text := w.Body.String()
			if tt.status != 200 {
				text = errorText(t, w)
			}
			if !strings.Contains(text, tt.text) {
				t.Errorf("answered %.200s, want %.200s", text, tt.text)
			}
		})
	}
}

// errorText returns the error of a response and checks its format.
func errorText(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var refusal struct{ Error string }
	if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil {
		t.Errorf("answered %q: %v", w.Body, err)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := w.Header().Get("Content-Length"); got != strconv.Itoa(w.Body.Len()) {
		t.Errorf("Content-Length %s for %d bytes", got, w.Body.Len())
	}
	return refusal.Error
}

func BenchmarkSign(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Sign("secret", benchmarkCall)
	}
}
