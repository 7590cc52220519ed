package ingest_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

func TestStoredCalls(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC)
	const received = `"receivedAt":"2026-01-31T12:00:00.123Z"`
	for name, test := range map[string]struct{ path, body, want string }{
		"as it came": {
			body: `{"batch":[ { "type" : "track", "userId":"u", "event":"E", "messageId":"m", "properties":{"b":1,"a": [ 2 ] }, "x":null } ]}`,
			want: `{"type" : "track", "userId":"u", "event":"E", "messageId":"m", "properties":{"b":1,"a": [ 2 ] }, "x":null,` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"numbers keep their digits": {
			body: `{"batch":[{"type":"identify","userId":12345678901234567890,"messageId":"m","traits":{"a":9007199254740993,"b":1.10,"c":1e400,"d":-0}}]}`,
			want: `{"type":"identify","userId":12345678901234567890,"messageId":"m","traits":{"a":9007199254740993,"b":1.10,"c":1e400,"d":-0},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"times of the sender": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T13:00:00+01:00"}],"sentAt":"2026-01-31T12:00:05Z"}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"sentAt":"2026-01-31T12:00:05.000Z","originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T11:59:55.123Z"}`,
		},
		"the call's own sentAt": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T12:00:00Z","sentAt":"2026-01-31T12:00:01Z"}],"sentAt":"2026-01-31T12:00:05Z"}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"sentAt":"2026-01-31T12:00:01.000Z","originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T11:59:59.123Z"}`,
		},
		"an invalid sentAt": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","timestamp":"2026-01-31T12:00:00Z","sentAt":"soon"}],"sentAt":17}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"originalTimestamp instead of timestamp": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","originalTimestamp":"2026-01-31T12:00:00Z","timestamp":null,"receivedAt":"2001-01-01T00:00:00Z"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"timestamp has precedence over originalTimestamp": {
			body: `{"batch":[{"type":"page","userId":"u","messageId":"m","originalTimestamp":"2020-01-01T00:00:00Z","timestamp":"2026-01-31T12:00:00Z"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m",` + received + `,"originalTimestamp":"2026-01-31T12:00:00.000Z","timestamp":"2026-01-31T12:00:00.000Z"}`,
		},
		"type from the path": {
			path: "/v1/screen", body: `{"type":"page","userId":"u","messageId":"m","name":"Home","writeKey":"secret"}`,
			want: `{"userId":"u","messageId":"m","name":"Home","type":"screen",` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"context and integrations of the batch": {
			body: `{"context":{"ip":"1.2.3.4","library":{"name":"l"}},"batch":[{"type":"page","userId":"u","messageId":"m"}],"integrations":{"All":false}}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"ip":"1.2.3.4","library":{"name":"l"}},"integrations":{"All":false},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"merged with the call's own": {
			body: `{"context":{"ip":"1.2.3.4","library":{"name":"l","version":"1"}},"integrations":{"All":true,"A":{}},"batch":[{"context":{"library":{"name":"own"},"locale":"de"},"integrations":{"All":false},"type":"page","userId":"u","messageId":"m"}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"library":{"name":"own"},"locale":"de","ip":"1.2.3.4"},"integrations":{"All":false,"A":{}},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"keys that differ only in their escapes": {
			body: `{"context":{"i\u0070":1,"a\"b":2},"batch":[{"\u0074ype":"page","userI\u0064":"u","messageId":"m","context":{"ip":3,"a\u0022b":4}}]}`,
			want: `{"\u0074ype":"page","userI\u0064":"u","messageId":"m","context":{"ip":3,"a\u0022b":4},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"disjoint keys": {
			body: `{"context":{"a":1, "b":2 },"batch":[{"type":"page","userId":"u","messageId":"m","context":{ "c":3}}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"a":1, "b":2 , "c":3},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
		"empty and null objects": {
			body: `{"context":{"a":1},"integrations":{},"batch":[{"type":"page","userId":"u","messageId":"m","context":{ },"integrations":null}]}`,
			want: `{"type":"page","userId":"u","messageId":"m","context":{"a":1},"integrations":{},` + received + `,"timestamp":"2026-01-31T12:00:00.123Z"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(now))
				in := newIngest(nil)
				require.Equal(t, success, in.post(cmp.Or(test.path, "/v1/batch"), test.body).Body.String())
				require.Len(t, in.Stored(), 1)
				call := in.Stored()[0]
				assert.Equal(t, test.want, string(call.Body))
				again, err := event.ReadCall(call.Source, call.Body)
				require.NoError(t, err)
				assert.Equal(t, call, again)
			})
		})
	}
}

func TestMissingMessageIDIsGenerated(t *testing.T) {
	in := newIngest(nil)
	const call = `{"type":"page","userId":"u"}`
	in.post("/v1/batch", `{"batch":[`+call+`,`+call+`,{"type":"page","userId":"u","messageId":""},{"type":"page","userId":"u","messageId":null}]}`)
	ids := map[string]bool{}
	for _, call := range in.Stored() {
		var body struct{ MessageID string }
		require.NoError(t, json.Unmarshal(call.Body, &body))
		assert.Equal(t, call.ID, body.MessageID)
		assert.Equal(t, 1, strings.Count(string(call.Body), "messageId"))
		ids[call.ID] = true
	}
	assert.Len(t, ids, 4)
}

func TestLimits(t *testing.T) {
	call := func(size int) string { // a call of this size in bytes
		const head, tail = `{"type":"page","userId":"u","properties":{"x":"`, `"}}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	batch := func(calls ...string) string { return `{"batch":[` + strings.Join(calls, ",") + `]}` }
	pad := func(body string, size int) string { return body + strings.Repeat(" ", size-len(body)) }
	small := call(60)
	for name, test := range map[string]struct {
		path, body string
		status     int
		code       tracking.Code // code of the whole request
		stored     int
		rejected   []tracking.Code
	}{
		"a body of 500 KB":                          {body: pad(batch(small), 512_000), status: 200, stored: 1},
		"a body one byte larger":                    {body: pad(batch(small), 512_001), status: 413, code: tracking.CodeBodyTooLarge},
		"a call of 32 KB":                           {body: batch(call(32_768)), status: 200, stored: 1},
		"a call one byte larger":                    {body: batch(call(32_769), small), status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a single call of 32 KB":                    {path: "/v1/page", body: call(32_768), status: 200, stored: 1},
		"a single call one byte larger":             {path: "/v1/page", body: call(32_769), status: 200, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"2,500 calls":                               {body: batch(strings.Split(strings.Repeat(small+"\n", 2_500), "\n")[:2_500]...), status: 200, stored: 2_500},
		"2,501 calls":                               {body: batch(strings.Split(strings.Repeat(small+"\n", 2_501), "\n")[:2_501]...), status: 413, code: tracking.CodeTooManyCalls},
		"a messageId of 100 characters":             {body: batch(`{"type":"page","userId":"u","messageId":"` + strings.Repeat("é", 100) + `"}`), status: 200, stored: 1},
		"a messageId of 101":                        {body: batch(`{"type":"page","userId":"u","messageId":"` + strings.Repeat("é", 101) + `"}`), status: 200, rejected: []tracking.Code{tracking.CodeMessageIDTooLong}},
		"a messageId with a line feed":              {body: batch(`{"type":"page","userId":"u","messageId":"a\nb"}`, small), status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a tab":                    {body: batch(`{"type":"page","userId":"u","messageId":"a\tb"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a zero byte":              {body: batch(`{"type":"page","userId":"u","messageId":"\u0000"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId with a DEL":                    {body: batch(`{"type":"page","userId":"u","messageId":"a\u007f"}`), status: 200, rejected: []tracking.Code{tracking.CodeBadMessageID}},
		"a messageId that is not ASCII":             {body: batch(`{"type":"page","userId":"u","messageId":"é\u0085 %0a"}`), status: 200, stored: 1},
		"nesting of 1,000":                          {body: batch(`{"type":"page","userId":"u","properties":{"a":` + strings.Repeat("[", 996) + strings.Repeat("]", 996) + `}}`), status: 200, stored: 1},
		"nesting of 1,001":                          {body: batch(`{"type":"page","userId":"u","properties":{"a":` + strings.Repeat("[", 997) + strings.Repeat("]", 997) + `}}`), status: 400, code: tracking.CodeInvalidJSON},
		"a call too large with its batch's context": {body: `{"context":{"x":"` + strings.Repeat("x", 20_000) + `"},"batch":[` + call(13_000) + "," + small + `]}`, status: 200, stored: 1, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a context too large for a call":            {body: `{"context":{"x":"` + strings.Repeat("x", 40_000) + `"},"batch":[` + small + `]}`, status: 200, rejected: []tracking.Code{tracking.CodeCallTooLarge}},
		"a batch too large with its context":        {body: `{"context":{"x":"` + strings.Repeat("x", 30_000) + `"},"batch":[` + strings.Repeat(small+",", 300) + small + `]}`, status: 413, code: tracking.CodeBodyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			in := newIngest(nil)
			res := in.post(cmp.Or(test.path, "/v1/batch"), test.body)
			assert.Equal(t, test.status, res.Code, res.Body)
			if test.code != "" {
				assert.Equal(t, string(test.code), decode(t, res)["code"])
				assert.Len(t, in.refusals, 1)
			}
			assert.Len(t, in.Stored(), test.stored)
			var rejected []tracking.Code
			for _, r := range in.rejections {
				rejected = append(rejected, r.Code)
			}
			assert.Equal(t, test.rejected, rejected)
		})
	}
}

func TestRejectionCodes(t *testing.T) {
	for _, test := range []struct {
		call  string
		code  tracking.Code
		field string
	}{
		{`{"type":"track","userId":"u"}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","userId":"u","event":""}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","userId":"u","event":null}`, tracking.CodeNoEvent, "event"},
		{`{"type":"track","event":"E"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"page"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"identify","userId":"","anonymousId":null}`, tracking.CodeNoUser, "userId"},
		{`{"type":"group","userId":"u"}`, tracking.CodeNoGroup, "groupId"},
		{`{"type":"alias","userId":"u"}`, tracking.CodeNoPrevious, "previousId"},
		{`{"type":"alias","previousId":"p"}`, tracking.CodeNoUser, "userId"},
		{`{"type":"alias","previousId":"p","anonymousId":"a"}`, tracking.CodeNoUser, "userId"}, // not a field of the webhook payload
		{`{"userId":"u"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"Track","userId":"u","event":"E"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"delete","userId":"u"}`, tracking.CodeUnknownType, "type"},
		{`{"type":"page","userId":"u","properties":[]}`, tracking.CodeBadProperties, "properties"},
		{`{"type":"identify","userId":"u","traits":"x"}`, tracking.CodeBadTraits, "traits"},
		{`{"type":"page","userId":"u","context":1}`, tracking.CodeBadContext, "context"},
		{`{"type":"page","userId":"u","integrations":false}`, tracking.CodeBadIntegrations, "integrations"},
		{`{"type":"page","userId":"u","timestamp":"yesterday"}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":"u","timestamp":1769862896}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":"u","timestamp":""}`, tracking.CodeBadTimestamp, "timestamp"},
		{`{"type":"page","userId":{"id":"u"}}`, tracking.CodeBadField, "userId"},
		{`{"type":"page","userId":"u","name":true}`, tracking.CodeBadField, "name"},
		{`{"type":"page","userId":"u","messageId":[]}`, tracking.CodeBadField, "messageId"},
		{`"page"`, tracking.CodeNotObject, ""},
		{`null`, tracking.CodeNotObject, ""},
	} {
		in := newIngest(func(c *ingest.Config) { c.Strict = true })
		res := in.post("/v1/batch", `{"batch":[{"type":"page","userId":"good"},`+test.call+`]}`)
		require.Equal(t, http.StatusBadRequest, res.Code, test.call)
		var got struct {
			Code  tracking.Code
			Calls []tracking.Rejection
		}
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &got))
		assert.Equal(t, tracking.CodeInvalidCalls, got.Code)
		require.Len(t, got.Calls, 1)
		assert.Equal(t, []any{test.code, test.field, 1}, []any{got.Calls[0].Code, got.Calls[0].Field, got.Calls[0].Index}, test.call)
		assert.NotEmpty(t, got.Calls[0].Message)
		assert.Empty(t, in.Stored(), "in strict mode, a request with an invalid call is not stored")
		require.Len(t, in.rejections, 1)
		assert.Equal(t, test.call, string(in.rejections[0].Body))
	}
}

// TestFieldsOfOtherTypes checks that a type's fields are checked only in calls of this type. Otherwise
// a new field would reject calls that were accepted before.
func TestFieldsOfOtherTypes(t *testing.T) {
	for _, typ := range fields.CallTypes {
		call := map[string]any{"type": typ.Name, "userId": "u", fields.Names[typ.Required]: "x", "unknown": []int{1}}
		for f, name := range fields.Names {
			if !typ.Has(fields.Field(f)) {
				call[name] = []int{1}
			}
		}
		delete(call, "")
		body, err := json.Marshal(map[string]any{"batch": []any{call}})
		require.NoError(t, err)
		in := newIngest(nil)
		in.post("/v1/batch", string(body))
		require.Empty(t, in.rejections, "%s", body)
		var stored map[string]any
		require.NoError(t, json.Unmarshal(in.Stored()[0].Body, &stored))
		assert.Equal(t, []any{1.0}, stored["unknown"])
	}
}

func TestNumericIDs(t *testing.T) {
	in := newIngest(nil)
	in.post("/v1/batch", `{"batch":[{"type":"group","userId":42,"groupId":7.5,"messageId":123}]}`)
	call := in.Stored()[0]
	assert.Equal(t, []string{"42", "7.5", "123"}, []string{call.UserID, call.GroupID, call.ID})
}

func TestInvalidRequests(t *testing.T) {
	for body, code := range map[string]tracking.Code{
		``: tracking.CodeInvalidJSON, `{`: tracking.CodeInvalidJSON, `{"batch":[}`: tracking.CodeInvalidJSON, `{"batch":[]} x`: tracking.CodeInvalidJSON, `{} x`: tracking.CodeInvalidJSON, `[] x`: tracking.CodeInvalidJSON,
		`[]`: tracking.CodeInvalidBatch, `"x"`: tracking.CodeInvalidBatch, `{}`: tracking.CodeInvalidBatch, `{"batch":{}}`: tracking.CodeInvalidBatch, `{"batch":null}`: tracking.CodeInvalidBatch,
		`{"batch":[],"context":{"a":tru}}`: tracking.CodeInvalidJSON, `{"context":{"a":tru},"batch":[]}`: tracking.CodeInvalidJSON, `[tru]`: tracking.CodeInvalidJSON,
	} {
		res := newIngest(nil).post("/v1/batch", body)
		assert.Equal(t, http.StatusBadRequest, res.Code, body)
		assert.Equal(t, string(code), decode(t, res)["code"], body)
	}
	assert.Equal(t, `the body must be an object such as {"batch":[…]}`, decode(t, newIngest(nil).post("/v1/batch", `[]`))["message"])
	assert.Equal(t, "the body must be an object: one call", decode(t, newIngest(nil).post("/v1/track", `[]`))["message"])
	assert.Equal(t, success, newIngest(nil).post("/v1/batch", `{"batch":[]}`).Body.String(), "an empty batch is valid")
	assert.Equal(t, http.StatusBadRequest, newIngest(nil).post("/v1/track", `[]`).Code)
}
