package ingest_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// private redacts the values of the tests below.
var private = tracking.Source{Name: "web", WriteKey: "key", Redact: tracking.Redaction{
	Remove: []string{"context.ip", "traits.email"}, Hash: []string{"userId"}, Mask: []string{"properties.card"},
}}

func hashed(id string) string {
	h := hmac.New(sha256.New, []byte("key"))
	h.Write([]byte(id))
	return hex.EncodeToString(h.Sum(nil))
}

func TestSourceRedactsCallsBeforeTheyAreStored(t *testing.T) {
	in := newIngest(nil, private, tracking.Source{Name: "open", WriteKey: "open-key"})
	res := in.post("/v1/batch", `{"context":{"ip":"1.2.3.4","locale":"de"},"batch":[
		{"type":"track","event":"Paid","userId":"ada","messageId":"1","properties":{"card":"4111111111111234"}},
		{"type":"identify","userId":"bob","anonymousId":"","messageId":"2","context":{"ip":"5.6.7.8"},"traits":{"email":"bob@example.com","plan":"Pro"}},
		{"type":"identify","userId":"eve","messageId":"3","traits":{"email":"eve@example.com"},"writeKey":"open-key"}]}`)
	require.Equal(t, http.StatusOK, res.Code, res.Body)
	stored := in.Stored()
	require.Len(t, stored, 3)
	assert.Equal(t, hashed("ada"), stored[0].UserID)
	assert.Equal(t, map[string]any{"locale": "de"}, stored[0].Context())
	assert.Equal(t, map[string]any{"card": "****1234"}, stored[0].Properties())
	assert.Equal(t, map[string]any{"plan": "Pro"}, stored[1].Traits())
	assert.Equal(t, map[string]any{"locale": "de"}, stored[1].Context())
	assert.Equal(t, "eve", stored[2].UserID, "a source without redaction")
	for _, call := range stored[:2] {
		again, err := event.ReadCall(call.Source, call.Body)
		require.NoError(t, err)
		assert.Equal(t, again, call)
		for _, secret := range []string{"ada", "bob", "1.2.3.4", "5.6.7.8", "4111"} {
			assert.NotContains(t, string(call.Body), secret)
		}
	}
}

func TestRejectedAndRefusedCallsAreRedacted(t *testing.T) {
	in := newIngest(nil, private)
	in.post("/v1/batch", `{"batch":[{"type":"track","userId":"ada","properties":{"card":"4111111111111234"}}]}`)
	require.Len(t, in.rejections, 1)
	assert.JSONEq(t, `{"type":"track","userId":"`+hashed("ada")+`","properties":{"card":"****1234"}}`, string(in.rejections[0].Body))

	in = newIngest(nil, private, tracking.Source{Name: "open", WriteKey: "open-key"})
	large := `{"type":"track","event":"E","userId":"ada","x":"` + strings.Repeat("x", 40_000) + `","writeKey":"key"}`
	in.ask(http.MethodPost, "/v1/batch", strings.NewReader(`{"batch":[`+large+`,["ada"]]}`), "Authorization: Basic b3Blbi1rZXk6")
	in.post("/v1/batch", `{"batch":[["ada"],"ada",{"type":"page","userId":"ada","writeKey":"unknown"}]}`)
	require.Len(t, in.rejections, 5)
	assert.Contains(t, string(in.rejections[0].Body), hashed("ada"), "a call that is too large")
	assert.Equal(t, `["ada"]`, string(in.rejections[1].Body), "a source without redaction")
	for _, rejected := range in.rejections[2:] {
		assert.Equal(t, "(not shown, because a source redacts values)", string(rejected.Body), "a call that is not an object, or has an unknown source")
	}

	for _, body := range []string{`{"batch":[{"type":"track","userId":"ada","properties":{"card":"4111111111111234"}}]`, `userId=ada`} {
		in.post("/v1/batch", body)
		refused := in.refusals[len(in.refusals)-1]
		assert.Equal(t, "(not shown, because a source redacts values)", string(refused.Body))
		assert.NotContains(t, refused.Message, "ada")
	}
}

func TestPlansJudgeRedactedCalls(t *testing.T) {
	var members []string
	in := newIngest(func(c *ingest.Config) {
		c.Plans = judgeFunc(func(c *tracking.Call, member []byte) ingest.Verdict {
			members = append(members, c.UserID+" "+string(member))
			return ingest.Verdict{}
		})
	}, private)
	in.post("/v1/batch", `{"batch":[{"type":"track","event":"Paid","userId":"ada","properties":{"card":"short"}},{"type":"identify","userId":"ada","traits":{"email":"a"}}]}`)
	assert.Equal(t, []string{hashed("ada") + ` {"card":"****"}`, hashed("ada") + ` {}`}, members)
}
