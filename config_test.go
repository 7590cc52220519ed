package analytics

import (
	"io"
	"log"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/internal/pipeline"
)

func TestBatchURL(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "https://api.segment.io/v1/batch",
		"https://api.segment.io":           "https://api.segment.io/v1/batch",
		"https://api.segment.io/":          "https://api.segment.io/v1/batch",
		"https://api.segment.io//":         "https://api.segment.io/v1/batch",
		"http://localhost:8765":            "http://localhost:8765/v1/batch",
		"http://[::1]:8765/":               "http://[::1]:8765/v1/batch",
		"https://example.com/prefix":       "https://example.com/prefix/v1/batch",
		"https://example.com/prefix/":      "https://example.com/prefix/v1/batch",
		"https://example.com/a/b/":         "https://example.com/a/b/v1/batch",
		"https://example.com/batches":      "https://example.com/batches/v1/batch",
		"https://example.com/v1/batch":     "https://example.com/v1/batch",
		"https://example.com/v1/batch/":    "https://example.com/v1/batch/",
		"https://example.com/v1/import":    "https://example.com/v1/import",
		"https://example.com/import":       "https://example.com/import",
		"https://example.com/v1/batch?a=1": "https://example.com/v1/batch?a=1",
		"https://example.com/prefix?a=1":   "https://example.com/prefix/v1/batch?a=1",
		"https://example.com/a%2Fb":        "https://example.com/a%2Fb/v1/batch",
		"HTTPS://example.com":              "https://example.com/v1/batch",
		EndpointEU:                         "https://events.eu1.segmentapis.com/v1/batch",
		EndpointEU + "/v1":                 "https://events.eu1.segmentapis.com/v1/batch",
		EndpointEU + "/v1/":                "https://events.eu1.segmentapis.com/v1/batch",
		"https://example.com/av1":          "https://example.com/av1/v1/batch",
	} {
		u, err := batchURL(in)
		require.NoError(t, err, in)
		require.Equal(t, want, u.String(), in)
		require.True(t, strings.HasPrefix(u.RequestURI(), "/"), "%s: the request line would have no slash", in)
	}
	for in, want := range map[string]string{
		"api.segment.io": "https://api.segment.io", "localhost:8765": "http://localhost:8765", "127.0.0.1:8765/v1": "http://127.0.0.1:8765",
		"[::1]:8765": "http://[::1]:8765", "collector:8765": "http://collector:8765", "example.com:443/v1?key=secret": "https://example.com:443",
	} {
		_, err := batchURL(in)
		require.ErrorContains(t, err, "; it must look like "+want, in)
		require.True(t, strings.HasSuffix(err.Error(), want), err)
	}
	for _, in := range []string{"/v1/batch", "ftp://example.com", "https://", "http:///v1", "://x", "https://exa mple.com", "https://example.com:port", "https://user:secret@exa mple.com",
		"https://user:secret/1@example.com", "https://user:secret#1@example.com", "user:secret@example.com", "//user:secret@example.com", "ftp://user:a@secret@example.com"} {
		_, err := batchURL(in)
		require.ErrorContains(t, err, "Endpoint", in)
		require.ErrorContains(t, err, "it must look like https://api.segment.io", in)
		require.NotContains(t, err.Error(), "secret", in)
	}
}

func TestSizeAndIntervalPrecedence(t *testing.T) {
	for _, tt := range []struct{ size, flushAt, want int }{
		{20, 20, 20},
		{250, 20, 250},
		{20, 250, 250},
		{5, 20, 5},
		{20, 5, 5},
		{250, 5, 5},
		{5, 250, 5},
		{1, 20, 1},
		{20, 1, 1},
		{0, 7, 7},
		{7, 0, 7},
		{-1, -1, 20},
		{0, 0, 20},
	} {
		c := New("key")
		c.Size, c.FlushAt = tt.size, tt.flushAt
		c.Interval, c.FlushAfter = time.Duration(tt.size)*time.Second/4, time.Duration(tt.flushAt)*time.Second/4
		s, err := c.settings()
		require.NoError(t, err)
		require.Equal(t, tt.want, s.FlushAt, "%+v", tt)
		require.Equal(t, time.Duration(tt.want)*time.Second/4, s.FlushAfter, "%+v", tt)
	}
}

func TestDefaults(t *testing.T) {
	c := New("key")
	require.Equal(t, "https://api.segment.io", c.Endpoint)
	require.Equal(t, 20, c.Size)
	require.Equal(t, 20, c.FlushAt)
	require.Equal(t, 5*time.Second, c.Interval)
	require.Equal(t, 5*time.Second, c.FlushAfter)
	require.NotNil(t, c.Logger)
	require.False(t, c.Verbose)
	require.Equal(t, *http.DefaultClient, c.Client)
	s, err := c.settings()
	require.NoError(t, err)
	require.Equal(t, 10*time.Second, s.Timeout)
	require.Equal(t, 4, s.MaxInFlight)
	require.Equal(t, 10, s.Policy.Attempts)
	require.EqualValues(t, 32<<20, s.MaxBytes)
	require.Equal(t, pipeline.Reject, s.WhenFull)
}

func TestConfigRefused(t *testing.T) {
	for _, tt := range []struct {
		key  string
		cfg  Config
		text string
	}{
		{"", Config{}, "the write key is empty"},
		{" \n", Config{}, "the write key is empty"},
		{"key\n", Config{}, "the write key ends with a line break; use strings.TrimSpace if it is read from a file"},
		{"key\r\n", Config{}, "the write key ends with a line break"},
		{"key ", Config{}, "the write key ends with white space"},
		{"\tkey", Config{}, "the write key begins with white space"},
		{"\xff", Config{}, "the write key is not UTF-8"},
		{"a\x00b", Config{}, "the write key contains U+0000, which is not printable"},
		{"\ufeffkey", Config{}, "the write key contains U+FEFF, which is not printable"},
		{"key\u200b", Config{}, "the write key contains U+200B"},
		{"user:key", Config{}, "the write key contains a colon"},
		{"k", Config{Endpoint: "localhost"}, `Endpoint "localhost" is not an http or https URL with a host`},
		{"k", Config{Endpoint: "127.0.0.1:8765"}, `Endpoint "127.0.0.1:8765" is not a URL: first path segment in URL cannot contain colon`},
		{"k", Config{Endpoint: "http://localhost:99999"}, "Endpoint has the port 99999; a port is from 1 to 65535"},
		{"k", Config{Endpoint: "https://user:secret@[::1]:0/v1"}, "Endpoint has the port 0; a port is from 1 to 65535"},
		{"k", Config{Endpoint: "http://localhost:65536"}, "Endpoint has the port 65536"},
		{"k", Config{MaxInFlight: -1}, "MaxInFlight is -1; it must be from 1 to 1000, or 0 for the default of 4"},
		{"k", Config{MaxInFlight: math.MaxInt}, "it must be from 1 to 1000"},
		{"k", Config{MaxAttempts: -1}, "MaxAttempts is -1"},
		{"k", Config{MaxBytes: 1000}, "MaxBytes is 1000; it must be at least 131072"},
		{"k", Config{MaxBytes: -1}, "MaxBytes is -1"},
		{"k", Config{CloseTimeout: -time.Second}, "CloseTimeout is -1s"},
		{"k", Config{WhenFull: 7}, "WhenFull is 7"},
		{"k", Config{Context: map[string]interface{}{"a": math.NaN()}}, "batch context.a: json: unsupported value: NaN"},
		{"k", Config{Integrations: Integrations{"b": false, "a": math.NaN()}}, "Config.Integrations: integrations.a: json: unsupported value: NaN"},
		{"k", Config{Integrations: Integrations{"a": strings.Repeat("x", 33_000)}}, "Config.Integrations is 33024 bytes as JSON, and each call is limited to 32768"},
		{"k", Config{Context: map[string]interface{}{"a": strings.Repeat("x", 33_000)}}, "over the limit of 32768"},
	} {
		client, err := NewWithConfig(tt.key, tt.cfg)
		require.ErrorContains(t, err, tt.text)
		require.Nil(t, client)
	}
	_, err := NewWithConfig("", Config{MaxInFlight: -1, Endpoint: "x"})
	for _, text := range []string{"write key", "Endpoint", "MaxInFlight"} {
		require.ErrorContains(t, err, text)
	}
	client, err := NewWithConfig("k", Config{FlushAt: -1, FlushAfter: -1})
	require.NoError(t, err)
	require.Equal(t, 20, client.FlushAt)
	require.Equal(t, 5*time.Second, client.FlushAfter)
}

func TestNewReportsAnInvalidWriteKeyAtTheFirstCall(t *testing.T) {
	for _, key := range []string{"", "\xff", "key\n", "\x00", "\ufeffkey"} {
		c := New(key)
		c.Logger = log.New(io.Discard, "", 0)
		require.ErrorContains(t, c.Track(&Track{Event: "e", UserId: "u"}), "the write key", "%q", key)
		require.NoError(t, c.Close())
	}
}

// An error contains at most 200 bytes of a setting's value, not counting quotes and escapes.
func TestConfigErrorsAreShort(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	for _, endpoint := range []string{
		long, "http://" + long + ":x", "http://h:" + strings.Repeat("9", 100_000), "http://a\x7f" + long,
		"http://[" + long, "x@" + long, "http://h/%" + long, long + ":", strings.Repeat("\x00", 1000),
	} {
		_, err := NewWithConfig("k", Config{Endpoint: endpoint, SettingsEndpoint: endpoint})
		require.Error(t, err)
		require.Less(t, len(err.Error()), 2500, "%.40q", endpoint)
		require.True(t, utf8.ValidString(err.Error()))
	}
	_, err := NewWithConfig(strings.Repeat("k", 100_000)+"\n", Config{})
	require.Less(t, len(err.Error()), 200)
}

func TestContextHasTheLibrary(t *testing.T) {
	library := `"library":{"name":"analytics-go","version":"` + Version + `"}`
	for _, tt := range []struct {
		name string
		in   map[string]interface{}
		want string
	}{
		{"default", nil, `{` + library + `}`},
		{"more", map[string]interface{}{"app": "a"}, `{"app":"a",` + library + `}`},
		{"own", map[string]interface{}{"library": "mine"}, `{"library":"mine"}`},
		{"empty", map[string]interface{}{}, `{` + library + `}`},
	} {
		got, err := encodeBatchContext(tt.in)
		require.NoError(t, err, tt.name)
		require.Equal(t, `],"context":`+tt.want+`,"messageId":"`, string(got), tt.name)
	}
}

func TestZeroClient(t *testing.T) {
	var c Client
	c.Logger = log.New(io.Discard, "", 0)
	require.ErrorContains(t, c.Track(&Track{Event: "e", UserId: "u"}), "the write key is empty")
	require.EqualValues(t, 1, c.Stats().Rejected.Invalid)
	c = Client{Logger: c.Logger, writeKey: "key"}
	s, err := c.settings()
	require.NoError(t, err)
	require.Equal(t, "https://api.segment.io/v1/batch", s.Request.URL.String())
	require.Equal(t, 20, s.FlushAt)
	require.Equal(t, 5*time.Second, s.FlushAfter)
	require.NoError(t, c.Flush(t.Context()))
	require.NoError(t, c.Close())
	require.Equal(t, Stats{}, c.Stats())
}

func TestSettingsURL(t *testing.T) {
	for endpoint, want := range map[string]string{
		"https://cdn.example":          "/v1/projects/a%2Fb%20c/settings",
		"https://cdn.example/":         "/v1/projects/a%2Fb%20c/settings",
		"http://127.0.0.1:8765/cdn":    "/cdn/v1/projects/a%2Fb%20c/settings",
		"https://[::1]:1/cdn/prefix//": "/cdn/prefix/v1/projects/a%2Fb%20c/settings",
	} {
		u, err := settingsURL(endpoint, "a/b c")
		require.NoError(t, err)
		require.Equal(t, want, u.RequestURI(), endpoint)
	}
	u, err := settingsURL("", "k")
	require.NoError(t, err)
	require.Nil(t, u)
	for endpoint, want := range map[string]string{
		"cdn.example":               "is not an http or https URL with a host; it must look like https://cdn.example",
		"ftp://cdn.example":         "is not an http or https URL with a host; it must look like https://cdn-settings.segment.com",
		"https://":                  "is not an http or https URL with a host; it must look like https://cdn-settings.segment.com",
		"https://%zz":               `SettingsEndpoint "https://%zz" is not a URL: invalid URL escape "%zz"`,
		"https://cdn.example:99999": "SettingsEndpoint has the port 99999; a port is from 1 to 65535",
	} {
		_, err := NewWithConfig("k", Config{SettingsEndpoint: endpoint})
		require.ErrorContains(t, err, want)
	}
	_, err = NewWithConfig("k", Config{MaxTotalBackoffDuration: -1})
	require.ErrorContains(t, err, "Config.MaxTotalBackoffDuration is -1ns; it must be positive, or 0 for the default of 12h0m0s")
	_, err = NewWithConfig("k", Config{MaxRateLimitDuration: -1})
	require.ErrorContains(t, err, "Config.MaxRateLimitDuration is -1ns; it must be positive, or 0 for the default of 12h0m0s")
}
