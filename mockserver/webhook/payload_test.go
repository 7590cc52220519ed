package webhook

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
)

// TestPayloadGolden compares the body of each type with the documented body.
func TestPayloadGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "payload", "*.call.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range fields.StoredTypes {
		if file := filepath.Join("testdata", "payload", typ+".call.json"); !slices.Contains(files, file) {
			t.Errorf("%s is missing", file)
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".call.json")
		t.Run(name, func(t *testing.T) {
			alias := AliasFields("")
			if _, setting, ok := strings.Cut(name, "alias-"); ok {
				alias = AliasFields(setting)
			}
			want := bytes.TrimSpace(readFile(t, strings.Replace(file, ".call.", ".body.", 1)))
			got, err := Payload(readFile(t, file), alias)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			checkFixpoint(t, got)
		})
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPayload(t *testing.T) {
	const at = `"timestamp":"2024-05-17T10:20:30.123Z"`
	tests := []struct {
		name, call, want string
		alias            AliasFields
	}{
		{name: "spaced alias by name", alias: AliasSpaced,
			call: `{"type":"alias","userId":"new","previousId":"old",` + at + `}`,
			want: `{"version":1,"type":"alias","Previous ID":"old","User ID":"new",` + at + `}`},
		{name: "alias of an anonymous user with context",
			call: `{"type":"alias","userId":"new","previousId":"old","anonymousId":"a","context":{},` + at + `}`,
			want: `{"version":1,"type":"alias","Previous ID":"old","User ID":"new","anonymousId":"a",` + at + `,"context":{}}`},
		{name: "the last duplicate field counts",
			call: `{"type":"track","userId":"a","event":"x",` + at + `,"userId":"b","type":"identify","traits":{"a":1},"traits":{"b":2}}`,
			want: `{"version":1,"type":"identify","userId":"b","traits":{"b":2},` + at + `}`},
		{name: "escaped field names",
			call: `{"t\u0079pe":"identify","\u0075serId":"u",` + at + `}`,
			want: `{"version":1,"type":"identify","userId":"u","traits":{},` + at + `}`},
		{name: "nested field names are ignored",
			call: `{"context":{"userId":"x","timestamp":1,"type":"page"},"type":"identify","userId":"u",` + at + `}`,
			want: `{"version":1,"type":"identify","userId":"u","traits":{},` + at + `,"context":{"userId":"x","timestamp":1,"type":"page"}}`},
		{name: "fields in any order",
			call: `{"7":"x",` + at + `,"3":"y","userId":"u","traits":{"b":1,"2":2,"b":3},"type":"identify"}`,
			want: `{"version":1,"type":"identify","userId":"u","traits":{"2":2,"b":3},` + at + `}`},
		{name: "null is absent",
			call: `{"type":"page","userId":null,"anonymousId":"a","name":null,"properties":null,"context":null,` + at + `}`,
			want: `{"version":1,"type":"page","anonymousId":"a","properties":{},` + at + `}`},
		{name: "a page's name as an escaped key of its properties",
			call: `{"type":"page","userId":"u","name":"new","properties":{"n\u0061me":"old"},` + at + `}`,
			want: `{"version":1,"type":"page","userId":"u","properties":{"name":"old"},` + at + `}`},
		{name: "a page's name as a value and a nested key of its properties",
			call: `{"type":"page","userId":"u","name":"new","properties":{"a":"name","b":"\"name\":","c":["name",{"name":1}]},` + at + `}`,
			want: `{"version":1,"type":"page","userId":"u","properties":{"a":"name","b":"\"name\":","c":["name",{"name":1}],"name":"new"},` + at + `}`},
		{name: "a page's name is null in its properties",
			call: `{"type":"page","userId":"u","name":"new","properties":{"name":null},` + at + `}`,
			want: `{"version":1,"type":"page","userId":"u","properties":{"name":null},` + at + `}`},
		{name: "a screen without a name",
			call: `{"type":"screen","userId":"u",` + at + `}`,
			want: `{"version":1,"type":"screen","userId":"u",` + at + `}`},
		{name: "a group of an anonymous user",
			call: `{"type":"group","anonymousId":"a","groupId":"g",` + at + `}`,
			want: `{"version":1,"type":"group","groupId":"g","anonymousId":"a","traits":{},` + at + `}`},
		{name: "numeric IDs become strings",
			call: `{"type":"group","userId":12345678901234567890,"groupId":-7.0,"anonymousId":1e400,"traits":{"n":7.0},` + at + `}`,
			want: `{"version":1,"type":"group","groupId":"-7.0","userId":"12345678901234567890","anonymousId":"1e400","traits":{"n":7},` + at + `}`},
		{name: "numbers for names",
			call: `{"type":"track","userId":"a","event":1,"event": 42 ,` + at + `}`,
			want: `{"version":1,"type":"track","userId":"a","event":"42","properties":{},` + at + `}`},
		{name: "nanoseconds and an offset",
			call: `{"type":"identify","userId":"u","timestamp":"2024-01-01T00:30:00.123999999+01:00"}`,
			want: `{"version":1,"type":"identify","userId":"u","traits":{},"timestamp":"2023-12-31T23:30:00.123Z"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Payload([]byte(tt.call), tt.alias)
			if err != nil || string(got) != tt.want {
				t.Errorf("got  %s, error %v\nwant %s", got, err, tt.want)
			}
		})
	}
}

func TestPayloadErrors(t *testing.T) {
	const at = `"timestamp":"2024-05-17T10:20:30.123Z"`
	for call, want := range map[string]string{
		`{"type":"track"`:           "unexpected end of text",
		`["track"]`:                 "the JSON is not an object",
		`"track"`:                   "the JSON is not an object",
		`{"userId":"u",` + at + `}`: `the call's type is ""`,
		`{"type":"Track","event":"x",` + at + `}`:                           `type is "\"Track\"", not track, identify`,
		`{"type":1,` + at + `}`:                                             `type is "1", not track`,
		`{"type":["page"],` + at + `}`:                                      `type is "[\"page\"]", not track`,
		`{"type":"track","userId":"u",` + at + `}`:                          "type track requires event",
		`{"type":"group","userId":"u",` + at + `}`:                          "type group requires groupId",
		`{"type":"alias","userId":"u",` + at + `}`:                          "type alias requires previousId",
		`{"type":"alias","previousId":"u",` + at + `}`:                      "type alias requires userId",
		`{"type":"delete","anonymousId":"a",` + at + `}`:                    "type delete requires userId",
		`{"type":"identify","userId":"u"}`:                                  "timestamp of a call of type identify is",
		`{"type":"identify","userId":"u","timestamp":"yesterday"}`:          "not an ISO 8601 time such as",
		`{"type":"identify","userId":"u","timestamp":1715941230}`:           "not an ISO 8601 time such as",
		`{"type":"delete","userId":"u","timestamp":"2024-05-17"}`:           "timestamp of a call of type delete",
		`{"type":"page","timestamp":"9999-12-31T23:59:59-01:00"}`:           "not an ISO 8601 time such as",
		`{"type":"identify","userId":"u","traits":[1],` + at + `}`:          "traits of a call of type identify is [1], not an object",
		`{"type":"page","userId":"u","name":"n","properties":1,` + at + `}`: "properties of a call of type page is 1, not an object",
		`{"type":"page","userId":"u","context":"x",` + at + `}`:             `context of a call of type page is "x", not an object`,
	} {
		got, err := Payload([]byte(call), "")
		if got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, error %v, want one with %q", call, got, err, want)
		}
	}
}

// Concurrent bodies must not share memory.
func TestPayloadConcurrentSafe(t *testing.T) {
	for i := range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			id := strings.Repeat(string(rune('a'+i)), 20)
			call := []byte(`{"type": "identify","userId":"` + id + `","traits":{"z":"` + id + `","1":1},"timestamp":"2024-05-17T10:20:30.123Z"}`)
			want, err := Payload(call, "")
			if err != nil || !bytes.Contains(want, []byte(`{"1":1,"z":"`+id)) {
				t.Fatalf("got %s, error %v", want, err)
			}
			for range 1000 {
				if got, _ := Payload(call, ""); !bytes.Equal(got, want) {
					t.Fatalf("got %s\nwant %s", got, want)
				}
			}
		})
	}
}

func FuzzPayload(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "payload", "*.call.json"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"type":"page","name":"\ud800","properties":{"\"name":1,"name\\":2},"timestamp":"2024-01-01T00:00:00Z"}`))
	f.Fuzz(func(t *testing.T, call []byte) {
		body, err := Payload(call, "")
		if err != nil {
			return
		}
		checkFixpoint(t, body)
		var got struct {
			Version              *int
			Type                 string
			Timestamp            string
			Properties, Traits   map[string]any
			Context              map[string]any
			Integrations, SentAt any
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if hasVersion := got.Version != nil && *got.Version == 1; hasVersion == (got.Type == "delete") {
			t.Errorf("%s: wrong version", body)
		}
		if len(got.Timestamp) != len(fields.TimeLayout) || !strings.HasSuffix(got.Timestamp, "Z") {
			t.Errorf("%s: timestamp %q", body, got.Timestamp)
		}
		if got.Integrations != nil || got.SentAt != nil {
			t.Errorf("%s: unexpected field", body)
		}
	})
}

func BenchmarkPayload(b *testing.B) {
	b.SetBytes(int64(len(benchmarkCall)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Payload(benchmarkCall, ""); err != nil {
			b.Fatal(err)
		}
	}
}

// Timestamps in the usual format are not parsed, but invalid ones must be refused.
func TestInvalidTimesAreRefused(t *testing.T) {
	for _, at := range []string{
		"2024-05-17T10:20:30.123Z", "2024-02-29T23:59:59.999Z", "2023-02-28T00:00:00.000Z", "0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z",
		"2023-02-29T10:20:30.123Z", "2024-00-17T10:20:30.123Z", "2024-13-17T10:20:30.123Z", "2024-05-00T10:20:30.123Z", "2024-04-31T10:20:30.123Z",
		"2024-05-17T24:20:30.123Z", "2024-05-17T10:60:30.123Z", "2024-05-17T10:20:60.123Z", "2024-05-17t10:20:30.123Z", "2024-05-17T10:20:30.123z",
		"2024-05-17T10:20:3a.123Z", "2024-05-17T10:20:30.12:Z", "2024/05/17T10:20:30.123Z", "2024-05-17T10:20:30,123Z", "2024-05-17T10:20:30.1234Z",
	} {
		body, err := Payload([]byte(`{"type":"delete","userId":"u","timestamp":"`+at+`"}`), "")
		want, wrong := time.Parse(time.RFC3339Nano, at)
		if (err == nil) != (wrong == nil) {
			t.Errorf("%s: the error is %v, and should be %v", at, err, wrong)
		} else if text := `"` + want.Format("2006-01-02T15:04:05.000Z") + `"`; err == nil && !strings.Contains(string(body), text) {
			t.Errorf("%s is not in %s", at, body)
		}
	}
}

// checkFixpoint checks that a body is in canonical form.
func checkFixpoint(t *testing.T, body []byte) {
	t.Helper()
	again, err := Canonical(nil, body)
	if err != nil || !bytes.Equal(again, body) {
		t.Errorf("%q is not canonical: %q, error %v", body, again, err)
	}
}

var benchmarkCall = []byte(`{"type":"track","userId":"019mr8mf4r","event":"Order Completed","messageId":"0192f0f4-7b0c-7000-8000-000000000001","properties":{"order_id":"50314b8e9bcf000000000000","total":27.5,"currency":"USD","coupon":"hasbros","step":3,"returning":true,"products":[{"sku":"45790-32","name":"Monopoly: 3rd Edition","price":19},{"sku":"46493-32","name":"Uno Card Game","price":3.25}],"note":"café, für alle"},"context":{"ip":"203.0.113.7","library":{"name":"analytics-go","version":"3.0.0"},"userAgent":"Mozilla/5.0 (X11; Linux x86_64)"},"integrations":{"All":true,"Webhooks":true},"timestamp":"2024-05-17T10:20:30.123Z","sentAt":"2024-05-17T10:20:30.500Z"}`)
