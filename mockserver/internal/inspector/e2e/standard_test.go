package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A signedRequest is a request and the secret to verify it with.
type signedRequest struct {
	Secret string
	Body   string
	Header http.Header
	fits   bool
}

// TestPublishedLibrariesVerifyDeliveries checks that the Standard Webhooks libraries accept
// deliveries with both secrets and reject modified requests.
func TestPublishedLibrariesVerifyDeliveries(t *testing.T) {
	t.Parallel()
	const before, after, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	rec := newReceiver(t, http.StatusOK)
	d := to("hook", rec.URL, after)
	d.PreviousSecret, d.Signature = before, webhook.SignatureBoth
	srv, collector := serve(t, engine.Config{Destinations: []tracking.Destination{d}}, "")
	post(t, srv.URL, "web", track("m.1", "ada", "Sign & Seal <é>\u2028", `{"a b":1.0,"10":12345678901234567890}`))
	awaitEnds(t, collector.History(), 1)
	bodies, heads := rec.got()
	require.Len(t, bodies, 1)
	body, header := bodies[0], heads[0]
	require.NoError(t, webhook.Verify(after, []byte(body), header.Get(webhook.SignatureHeader)))

	checks := []signedRequest{
		{after, body, header, true}, {before, body, header, true}, {other, body, header, false}, {after, body + " ", header, false},
	}
	for _, c := range checks {
		library, err := standardwebhooks.NewWebhook(c.Secret)
		require.NoError(t, err)
		assert.Equal(t, c.fits, library.Verify([]byte(c.Body), c.Header) == nil, "Go, %s", c.Secret)
		assert.Equal(t, c.fits, webhook.VerifyStandard(c.Secret, []byte(c.Body), c.Header) == nil, "ours, %s", c.Secret)
	}

	if _, err := exec.LookPath("node"); err != nil {
		t.Skip(err)
	}
	npmFile(t, "standardwebhooks/package.json")
	input, err := json.Marshal(checks)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "testdata/standardwebhooks.cjs")
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var verified []bool
	require.NoError(t, json.Unmarshal(out, &verified), "%s", out)
	for i, c := range checks {
		assert.Equal(t, c.fits, verified[i], "Node, %s", c.Secret)
	}
}
