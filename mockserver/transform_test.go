package mockserver_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// compileTest returns a transform that fails refunds, filters tests and shortens other bodies.
func compileTest(program string) (webhook.Transform, error) {
	if program != "short" {
		return nil, errors.New("unknown program")
	}
	return func(body []byte) ([]byte, error) {
		switch {
		case bytes.Contains(body, []byte("ada")):
			return nil, errors.New("not redacted")
		case bytes.Contains(body, []byte("Refunded")):
			return nil, errors.New("no refunds")
		case bytes.Contains(body, []byte("Tested")):
			return nil, nil
		}
		return []byte(`{"short":true}`), nil
	}, nil
}

func TestTransformChangesSignedBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hook("crm", "http://h/crm")
		d.Transform, d.SharedSecret, d.Redact = "short", "secret", tracking.Redaction{Hash: []string{"userId"}}
		srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{d}, RedactKey: []byte("key"), Transforms: compileTest})
		requests := make(chan string, 3)
		h.answer("/crm", func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			assert.NoError(t, webhook.Verify("secret", body, r.Header.Get(webhook.SignatureHeader)))
			requests <- string(body)
		})
		send(t, srv, `{"batch":[{"type":"track","event":"Paid","userId":"ada","messageId":"1"},{"type":"track","event":"Refunded","userId":"ada","messageId":"2"},{"type":"track","event":"Tested","userId":"ada","messageId":"3"}]}`)
		assert.Equal(t, `{"short":true}`, <-requests)
		synctest.Wait()
		assert.Empty(t, requests)
		outcomes := map[string]string{}
		for _, r := range srv.Engine().History().Records(nil) {
			for _, end := range r.Ends {
				outcomes[r.Call.ID] = end.State.String() + " " + end.Reason
			}
		}
		assert.Equal(t, map[string]string{
			"1": "delivered ", "2": "failed transform: no refunds", "3": "filtered transform: the program has no result for this call",
		}, outcomes)
	})
}

func TestInvalidTransformsInTheAPI(t *testing.T) {
	for want, config := range map[string]mockserver.Config{
		"transform: is not a valid program: unknown program: fix it, or try it with jq":                                         {Transforms: compileTest},
		"transform: requires a collector that runs programs: use the command collector, or set Transforms in mockserver.Config": {},
	} {
		srv := mockserver.RunT(t, config)
		status, answer := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm","webhooks":[{"url":"http://127.0.0.1:1"}],"transform":"other"}`)
		assert.Equal(t, http.StatusUnprocessableEntity, status)
		assert.Contains(t, answer["message"], want)
	}
}
