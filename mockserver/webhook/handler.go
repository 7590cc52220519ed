package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// MaxBody is the longest body in bytes that [Handler] takes. A call has at most
// 32 KB as its source sends it; written out in canonical form it stays well
// below.
const MaxBody = 1 << 20

// VerifyRequest checks the signature of a request that came with a body, however it is
// signed: by [VerifyStandard] where it has a webhook-signature, and by [Verify] where not.
// It must fit one of the secrets; while a secret is replaced there are two. The error is
// that of the first secret. Where old requests must be refused, and all are signed as the
// specification says, use VerifyStandard: an X-Signature has no timestamp, and a request
// that was signed in both ways can be sent again without the newer headers.
// Safe for concurrent use.
func VerifyRequest(body []byte, header http.Header, secrets ...string) error {
	err := ErrNoSecret
	for i, secret := range secrets {
		var wrong error
		if len(header.Values(StandardSignatureHeader)) > 0 {
			wrong = VerifyStandard(secret, body, header)
		} else {
			wrong = Verify(secret, body, header.Get(SignatureHeader))
		}
		if wrong == nil {
			return nil
		}
		if i == 0 {
			err = wrong
		}
	}
	return err
}

// Handler verifies the signature of each request by [VerifyRequest] and hands it on to
// next with the body to be read once more. While the secret is replaced, others are
// further secrets that are accepted. Other requests it answers itself, with
// {"error": "…"}: 401 when the signature is missing, wrong or too old, 413 when the body is
// longer than MaxBody, 400 when it cannot be read, and 500 to all when secret is empty.
func Handler(secret string, next http.Handler, others ...string) http.Handler {
	secrets := append([]string{secret}, others...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if secret == "" {
			refuse(w, http.StatusInternalServerError, ErrNoSecret)
			return
		}
		body, err := readBody(w, r)
		if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
			refuse(w, http.StatusRequestEntityTooLarge, fmt.Errorf("webhook: the body is longer than %d bytes", MaxBody))
			return
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, fmt.Errorf("webhook: reading the body: %w", err))
			return
		}
		if err := VerifyRequest(body, r.Header, secrets...); err != nil {
			refuse(w, http.StatusUnauthorized, err)
			return
		}
		verified := new(http.Request)
		*verified = *r
		verified.Body = io.NopCloser(bytes.NewReader(body))
		verified.ContentLength = int64(len(body))
		next.ServeHTTP(w, verified)
	})
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	limited := http.MaxBytesReader(w, r.Body, MaxBody)
	defer limited.Close()
	if r.ContentLength > MaxBody {
		return nil, &http.MaxBytesError{Limit: MaxBody}
	}
	return io.ReadAll(limited)
}

func refuse(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings always marshal
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets no answer
}
