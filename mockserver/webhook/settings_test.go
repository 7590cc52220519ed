package webhook

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSettingsJSON(t *testing.T) {
	const text = `{"webhooks":[{"url":"https://example.com/a","headers":{"X-Key":"k"}},{"url":"http://example.com"}],"sharedSecret":"s","aliasFields":"camelCase"}`
	var s Settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	want := Settings{
		Webhooks:     []Endpoint{{URL: "https://example.com/a", Headers: map[string]string{"X-Key": "k"}}, {URL: "http://example.com"}},
		SharedSecret: "s",
		AliasFields:  AliasCamelCase,
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
	back, err := json.Marshal(s)
	if err != nil || string(back) != text {
		t.Errorf("got %s, error %v\nwant %s", back, err, text)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// fieldErrors returns the errors that Validate has joined.
func fieldErrors(t *testing.T, err error) (all []*FieldError) {
	t.Helper()
	if err == nil {
		return nil
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var f *FieldError
		if !errors.As(e, &f) {
			t.Fatalf("%v is not a FieldError", e)
		}
		if f.Field == "" || f.Problem == "" || f.Hint == "" {
			t.Errorf("%+v has an empty field", f)
		}
		all = append(all, f)
	}
	return all
}

func TestValidateURL(t *testing.T) {
	for _, good := range []string{
		"http://example.com", "https://example.com/", "HTTPS://EXAMPLE.COM/x", "https://example.com:8443/hook?a=b&c=%20#f",
		"http://127.0.0.1:80", "http://[::1]:8080/x", "https://bücher.example/ä", "https://example.com./",
	} {
		if err := (Settings{Webhooks: []Endpoint{{URL: good}}}).Validate(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, problem := range map[string]string{
		"":                                 "is empty",
		"example.com/hook":                 `has no protocol`,
		"//example.com/hook":               `has no protocol`,
		"ftp://example.com":                `has the protocol "ftp"`,
		"file:///etc/passwd":               `has the protocol "file"`,
		"localhost:8080/x":                 `has no protocol`,
		"http:example.com":                 "has no host",
		"http:///hook":                     "has no host",
		"https://:443/":                    "has no host",
		"https://user@example.com":         "contains credentials",
		"https://user:hunter2@example.com": "contains credentials",
		"https://:@example.com":            "contains credentials",
		"https://example.com:0/":           "has the port 0",
		"https://example.com:65536/":       "has the port 65536",
		"https://example.com:http/":        "is not a valid URL",
		"https://exa mple.com":             "is not a valid URL",
		"https://example.com/\r\nX: y":     "is not a valid URL",
		"https://example.com/%zz":          "is not a valid URL",
		"https://[::1":                     "is not a valid URL",
		"https://u:hunter2@[::1":           "is not a valid URL",
		" https://example.com":             "is not a valid URL",
	} {
		all := fieldErrors(t, Settings{Webhooks: []Endpoint{{URL: bad}}}.Validate())
		if len(all) != 1 || all[0].Field != "webhooks[0].url" || !strings.HasPrefix(all[0].Problem, problem) {
			t.Errorf("%q: %v, want %q", bad, all, problem)
		} else if strings.Contains(all[0].Error(), "hunter2") {
			t.Errorf("%q: the error contains the password: %v", bad, all[0])
		}
	}
}

func TestValidateHeaders(t *testing.T) {
	good := map[string]string{
		"Authorization": "Bearer a.b-c", "x-api-key": "k", "X_Under": "", "Accept": "application/json",
		"X-Tab": "a\tb", "X-Latin": "caf\xe9", "X-UTF-8": "☃", "Idempotency-Key": "1",
	}
	if err := (Settings{Webhooks: []Endpoint{{URL: "https://example.com", Headers: good}}}).Validate(); err != nil {
		t.Error(err)
	}
	for _, tt := range []struct{ name, value, problem string }{
		{"Host", "a", "is set by the collector"},
		{"host", "a", "is set by the collector"},
		{"Content-Length", "1", "is set by the collector"},
		{"CONTENT-TYPE", "text/plain", "is set by the collector"},
		{"User-Agent", "x", "is set by the collector"},
		{"x-signature", "x", "is set by the collector"},
		{"X-Message-Id", "x", "is set by the collector"},
		{"X-Attempt", "x", "is set by the collector"},
		{"Connection", "close", "applies to one connection"},
		{"Keep-Alive", "1", "applies to one connection"},
		{"Proxy-Connection", "x", "applies to one connection"},
		{"Proxy-Authenticate", "x", "applies to one connection"},
		{"proxy-authorization", "x", "applies to one connection"},
		{"TE", "trailers", "applies to one connection"},
		{"Trailer", "X", "applies to one connection"},
		{"transfer-encoding", "chunked", "applies to one connection"},
		{"Upgrade", "h2c", "applies to one connection"},
		{"Expect", "100-continue", "applies to one connection"},
		{"", "x", "is not a valid header name"},
		{"X Key", "x", "is not a valid header name"},
		{"X-Key:", "x", "is not a valid header name"},
		{"X-Kéy", "x", "is not a valid header name"},
		{"X-Key\r\nX-Evil", "x", "is not a valid header name"},
		{"X-Key", "a\r\nX-Evil: b", `has the control character '\r' in its value`},
		{"X-Key", "a\nb", `has the control character '\n' in its value`},
		{"X-Key", "a\x00b", `has the control character '\x00' in its value`},
		{"X-Key", "a\x7f", `has the control character '\x7f' in its value`},
	} {
		s := Settings{Webhooks: []Endpoint{{URL: "https://example.com"}, {URL: "https://example.com", Headers: map[string]string{tt.name: tt.value}}}}
		all := fieldErrors(t, s.Validate())
		quoted, _ := json.Marshal(tt.name)
		if len(all) != 1 || !strings.HasPrefix(all[0].Problem, tt.problem) {
			t.Errorf("%q: %v, want %q", tt.name, all, tt.problem)
		} else if want := "webhooks[1].headers[" + string(quoted) + "]"; all[0].Field != want {
			t.Errorf("field %s, want %s", all[0].Field, want)
		}
	}
}

func TestValidateAll(t *testing.T) {
	if all := fieldErrors(t, Settings{}.Validate()); len(all) != 1 || all[0].Field != "webhooks" {
		t.Errorf("no webhooks: %v", all)
	}
	five := make([]Endpoint, MaxEndpoints)
	for i := range five {
		five[i].URL = "https://example.com"
	}
	for _, alias := range []AliasFields{"", AliasSpaced, AliasCamelCase} {
		if err := (Settings{Webhooks: five, AliasFields: alias}).Validate(); err != nil {
			t.Error(err)
		}
	}
	s := Settings{
		Webhooks: append(five[:4:4],
			Endpoint{URL: "ftp://u@h"},
			Endpoint{URL: "https://u:p@:99999", Headers: map[string]string{"x-key": "1", "X-Key": "2", "Host": "a\n"}}),
		AliasFields: "snake_case",
	}
	const want = `webhooks: has 6 URLs: keep at most 5
webhooks[4].url: has the protocol "ftp": start it with https:// or http://
webhooks[5].url: has no host: use a URL such as https://example.com/hook
webhooks[5].url: has the port 99999: use one from 1 to 65535
webhooks[5].url: contains credentials: use a static header such as Authorization instead
webhooks[5].headers["Host"]: is set by the collector: remove it
webhooks[5].headers["Host"]: has the control character '\n' in its value: use printable characters only
webhooks[5].headers["x-key"]: is the same header as "X-Key": keep one of them
aliasFields: is "snake_case": use "spaced" or "camelCase"`
	if got := s.Validate().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestFieldErrorsAreShort(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	for title, s := range map[string]Settings{
		"URL":       {Webhooks: []Endpoint{{URL: "http://[" + long}}},
		"port":      {Webhooks: []Endpoint{{URL: "http://host:" + strings.Repeat("1", 100_000)}}},
		"bad port":  {Webhooks: []Endpoint{{URL: "http://host:" + long}}},
		"protocol":  {Webhooks: []Endpoint{{URL: long + "://host"}}},
		"header":    {Webhooks: []Endpoint{{URL: "http://host", Headers: map[string]string{strings.Repeat("ä", 50_000): ""}}}},
		"signature": {Webhooks: []Endpoint{{URL: "http://host"}}, Signature: Signature(long)},
		"alias":     {Webhooks: []Endpoint{{URL: "http://host"}}, AliasFields: AliasFields(long)},
		"trace":     {Webhooks: []Endpoint{{URL: "http://host"}}, TraceContext: TraceContext(long)},
	} {
		err := s.Validate()
		if err == nil || len(err.Error()) >= 350 || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %.400v", title, err)
		}
	}
}
