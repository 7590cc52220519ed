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

// MaxBody is the maximum size in bytes of a request body that [Handler] accepts. A call has at most
// 32 KB when the collector receives it. The body of a webhook request is only a little longer.
const MaxBody = 1 << 20

// VerifyRequest verifies the signature of a request. body is the raw body. If the request has a
// Webhook-Signature header, VerifyRequest calls [VerifyStandard], otherwise [Verify]. The
// signature must match one of the secrets. During a secret rotation, pass both secrets. If no secret
// matches, VerifyRequest returns the error for the first secret.
//
// To protect against replayed requests, call VerifyStandard instead. An X-Signature does not
// contain a timestamp, and if a request has both signatures, an attacker can remove the Webhook
// headers.
//
// VerifyRequest is safe for concurrent use.
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

// Handler returns a handler that verifies the signature of each request with [VerifyRequest]
// and then calls next, which can read the body again. others contains additional secrets to accept
// during a rotation. If the verification fails, the response is {"error": "…"}. Its status is 401
// if the signature is missing, wrong or too old, 413 if the body is longer than MaxBody, 400
// if the body cannot be read, and 500 if secret is empty.
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
	body, _ := json.Marshal(map[string]string{"error": err.Error()}) // cannot fail for a map of strings
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may have closed the connection
}
