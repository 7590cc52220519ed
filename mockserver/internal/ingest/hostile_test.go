package ingest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
)

// bomb returns gzip data that decompresses to size blanks, in gzip members of 10 MB.
func bomb(tb testing.TB, size int64) io.Reader {
	var member bytes.Buffer
	z := gzip.NewWriter(&member)
	_, err := z.Write(bytes.Repeat([]byte{' '}, 10_000_000))
	require.NoError(tb, err)
	require.NoError(tb, z.Close())
	var members []io.Reader
	for ; size > 0; size -= 10_000_000 {
		members = append(members, bytes.NewReader(member.Bytes()))
	}
	return io.MultiReader(members...)
}

func TestGzipBomb(t *testing.T) {
	in := newIngest(nil)
	for _, path := range []string{"/v1/batch", "/v1/t", "/v1/m"} {
		var res *httptest.ResponseRecorder
		assert.Less(t, allocated(func() {
			res = in.ask(http.MethodPost, path, bomb(t, 10_000_000_000), "Content-Encoding: gzip", withKey)
		}), uint64(20<<20), "bytes in total, an upper bound of the memory in use")
		assert.Equal(t, http.StatusRequestEntityTooLarge, res.Code)
		assert.Equal(t, "body_too_large", decode(t, res)["code"])
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// hostileBodies returns bodies that no library sends.
func hostileBodies() map[string]string {
	const call = `{"type":"track","userId":"u","event":"E"}`
	in := func(call string) string { return `{"batch":[` + call + `],"writeKey":"key"}` }
	nested := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	bodies := map[string]string{
		"empty": "", "blanks": " \n\t\r ", "NUL": "\x00", "NULs": strings.Repeat("\x00", 10_000), "a quote": `"`, "a brace": "{", "a bracket": "[",
		"a backslash": `\`, "invalid UTF-8": "\xff\xfe\xfd", "a minus": "-", "a point": ".", "e": "e", "null": "null", "true": "true", "a number": "1e999",
		"a string": `"batch"`, "an array": "[]", "an array of calls": "[" + call + "]", "an empty object": "{}", "text behind": in(call) + "x",
		"two documents": in(call) + in(call), "batch is null": `{"batch":null}`, "batch is a number": `{"batch":1}`, "batch is a string": `{"batch":"x"}`,
		"batch is an object": `{"batch":{}}`, "batch twice": `{"batch":[` + call + `],"batch":1}`, "batch twice, in reverse order": `{"batch":1,"batch":[` + call + `]}`,
		"an empty batch": in(""), "nulls": in("null,null"), "arrays in it": in("[],[[]]"), "strings in it": in(`"a","b"`), "a trailing comma": in(call + ","),
		"an extra comma": in(call + ",," + call), "single quotes": "{'batch':[]}", "a comment": "/* */" + in(call), "NaN": in(`{"a":NaN}`), "Infinity": in(`{"a":-Infinity}`),
		"hexadecimal": in(`{"a":0x10}`), "a leading zero": in(`{"a":01}`), "a key that is not a string": `{batch:[]}`, "a key without a value": `{"batch"}`,
		"a raw newline in a string": in("{\"type\":\"a\nb\"}"), "a NUL in a string": in("{\"type\":\"a\x00b\"}"), "an escaped NUL": in(`{"type":"track","userId":"\u0000","event":"\u0000"}`),
		"half an escape": in(`{"a":"\u12"}`), "a lone surrogate": in(`{"type":"track","userId":"\ud800","event":"\udfff"}`), "invalid UTF-8 in a string": in("{\"type\":\"track\",\"userId\":\"\xff\",\"event\":\"\xc0\x80\"}"),
		"all JSON types": in(`{"type":{},"userId":[],"event":true,"messageId":false,"timestamp":{},"context":1,"integrations":"x","properties":null}`),
		"all null":       in(`{"type":null,"userId":null,"event":null,"messageId":null,"timestamp":null,"context":null,"integrations":null,"properties":null,"writeKey":null,"sentAt":null}`),
		"numeric IDs":    in(`{"type":"track","userId":-0.0e-5,"event":1e400,"messageId":12345678901234567890}`), "a huge number": in(`{"type":"track","userId":` + strings.Repeat("9", 30_000) + `,"event":"E"}`),
		"deep arrays": nested("[", "]", 100_000), "deep objects": nested(`{"a":`, "}", 50_000), "deeply nested, never closed": strings.Repeat("[", 400_000),
		"deeply nested in a call": in(`{"type":"track","userId":"u","event":"E","properties":{"a":` + nested("[", "]", 990) + `}}`), "too deeply nested in a call": in(`{"a":` + nested("[", "]", 1001) + `}`),
		"many calls": in(strings.Repeat("{},", 2_499) + "{}"), "too many calls": in(strings.Repeat("1,", 200_000) + "1"), "many members": in(`{` + strings.Repeat(`"a":1,`, 60_000) + `"b":2}`),
		"many batches": "{" + strings.Repeat(`"batch":[`+call+`],`, 8_000) + `"writeKey":"key"}`, "many keys": in(strings.Repeat(`{"type":"track","userId":"u","event":"E","writeKey":"k`, 1) + `"}`),
		"one long string": `"` + strings.Repeat("x", 400_000) + `"`, "one long key": `{"` + strings.Repeat("x", 400_000) + `":1}`, "escapes only": in(`{"a":"` + strings.Repeat(`\u0000`, 60_000) + `"}`),
		"a large context of the batch": `{"context":{"a":"` + strings.Repeat("x", 32_000) + `"},"batch":[` + strings.Repeat(call+",", 2_400) + call + `],"writeKey":"key"}`,
		"a context too large":          `{"context":{"a":"` + strings.Repeat("x", 300_000) + `"},"batch":[` + strings.Repeat(call+",", 1_000) + call + `],"writeKey":"key"}`,
		"a context of many keys":       `{"context":{` + manyKeys(2_500) + `},"batch":[{"type":"track","userId":"u","event":"E","context":{` + manyKeys(2_000) + `}}],"writeKey":"key"}`,
		"various contexts":             `{"context":[],"integrations":7,"batch":[` + call + `],"writeKey":{},"sentAt":[]}`,
		"a body too large":             strings.Repeat(" ", 600_000), "various times": in(`{"type":"track","userId":"u","event":"E","timestamp":"9999-12-31T23:59:59-23:59","sentAt":"0000-01-01T00:00:00+23:59"}`),
		"__proto__":                  in(`{"type":"track","userId":"u","event":"E","__proto__":{"a":1},"constructor":{"prototype":1}}`),
		"one messageId in all calls": in(strings.Repeat(`{"type":"track","userId":"u","event":"E","messageId":"m"},`, 2_000) + call),
	}
	for i := range len(call) { // every truncation of a call
		bodies[fmt.Sprintf("truncated at %d", i)] = `{"batch":[` + call[:i]
	}
	return bodies
}

func manyKeys(n int) string {
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf(`"%d":1`, i))
	}
	return strings.Join(keys, ",")
}

func TestHostileInputs(t *testing.T) {
	if testing.Short() {
		t.Skip("one request at a time: nothing runs concurrently")
	}
	bodies := hostileBodies()
	require.GreaterOrEqual(t, len(bodies), 64)
	for _, strict := range []bool{false, true} {
		in := newIngest(func(c *ingest.Config) { c.Strict = strict })
		for name, body := range bodies {
			for _, path := range []string{"/v1/batch", "/v1/track", "/v1/a", "/v1/m"} {
				res := in.post(path, body) // a panic would end the test
				assert.Less(t, res.Code, 500, "%s: %s: %s", path, name, res.Body)
				assert.True(t, json.Valid(res.Body.Bytes()), "%s: %s", path, name)
			}
			if len(body) < 4_000 {
				res := in.ask(http.MethodGet, "/v1/pixel/track?data="+url.QueryEscape(body), nil)
				assert.Equal(t, http.StatusOK, res.Code, name)
			}
		}
		checkStored(t, in)
	}
}

// checkStored checks that stored calls are valid JSON, and parse to the same call.
func checkStored(t *testing.T, in *testIngest) {
	t.Helper()
	for _, call := range in.Stored() {
		require.True(t, json.Valid(call.Body), "%.200q", call.Body)
		again, err := event.ReadCall(call.Source, call.Body)
		require.NoError(t, err)
		require.Equal(t, call, again)
	}
}

// FuzzIngest searches for bodies that crash the handler or are stored incorrectly.
func FuzzIngest(f *testing.F) {
	for _, body := range hostileBodies() {
		if len(body) < 1_000 {
			f.Add([]byte(body), "/v1/batch")
		}
	}
	f.Add([]byte(`{"userId":"u","event":"E","messageId":"\u006d","context":{"a":1},"timestamp":"2026-01-31T12:00:00Z"}`), "/v1/t")
	f.Add([]byte(track("m", 2)), "/v1/import/")
	f.Add([]byte(`{"batch":[{"type":"page","userId":"u","context":{"os":{"name":"Android"}}}],"context":{"library":{"name":"l"}},"sentAt":"2026-01-31T12:00:00Z"}`), "/v1/batch")
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		in := newIngest(nil)
		req := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		req.URL.Path = path
		req.SetBasicAuth("key", "")
		res := httptest.NewRecorder()
		in.ServeHTTP(res, req)
		require.Less(t, res.Code, 500)
		checkStored(t, in)
	})
}

func TestManyWriteKeysInOneBatch(t *testing.T) {
	in := newIngest(nil)
	var calls []string
	for i := range 2_500 {
		calls = append(calls, fmt.Sprintf(`{"type":"track","event":"e","userId":"u","writeKey":"k%d"}`, i))
	}
	assert.Less(t, allocated(func() {
		require.Equal(t, http.StatusOK, in.post("/v1/batch", `{"batch":[`+strings.Join(calls, ",")+`]}`).Code)
	}), uint64(40<<20))
}
