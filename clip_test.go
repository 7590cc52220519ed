package analytics_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

// long is a string of 100 KB that consists of two-byte characters.
var long = strings.Repeat("ä", 50_000)

// requireClipped checks that text is valid UTF-8 and contains at most 200 bytes of long.
func requireClipped(t *testing.T, text string) {
	t.Helper()
	require.LessOrEqual(t, strings.Count(text, "ä")*len("ä"), 200)
	require.Less(t, len(text), 600)
	require.True(t, utf8.ValidString(text), "%q", text)
}

type (
	failingWith   struct{ text string }
	panickingWith struct{ text string }
)

func (f failingWith) MarshalJSON() ([]byte, error)   { return nil, errors.New(f.text) }
func (p panickingWith) MarshalJSON() ([]byte, error) { panic(p.text) }
func (p panickingWith) LogValue() slog.Value         { panic(p.text) }

// An error about a call contains only a short part of the call.
func TestErrorsOfCallsAreShort(t *testing.T) {
	bad := make(chan int)
	client := newClient(t, &collector{}, analytics.Config{})
	for title, properties := range map[string]map[string]interface{}{
		"key":            {long: bad},
		"shifted key":    {"x" + long: bad},
		"quoted key":     {"." + long: bad},
		"binary key":     {strings.Repeat("\xff", 100_000): bad},
		"nested keys":    {long: map[string]interface{}{long: map[string]interface{}{long: map[string]interface{}{long: failingWith{long}}}}},
		"error":          {"v": failingWith{long}},
		"shifted error":  {"v": failingWith{"x" + long}},
		"binary error":   {"v": failingWith{strings.Repeat("\xff", 100_000)}},
		"panic":          {"v": panickingWith{long}},
		"panic in field": {"v": struct{ V interface{} }{panickingWith{long}}},
		"writer's panic": {"v": typed.Opt[string]{}, long: panickingWith{long}},
	} {
		t.Run(title, func(t *testing.T) {
			err := client.Enqueue(t.Context(), &analytics.Track{UserId: "u", Event: long[:100], Properties: properties})
			var field *analytics.FieldError
			require.ErrorAs(t, err, &field)
			requireClipped(t, err.Error())
			requireClipped(t, field.Field)
		})
	}
	t.Run("LogValue", func(t *testing.T) {
		err := client.Enqueue(t.Context(), &analytics.Track{UserId: "u", Event: "e", Attrs: []slog.Attr{slog.Any(long, panickingWith{long})}})
		require.Error(t, err)
		requireClipped(t, err.Error())
	})
	for title, config := range map[string]analytics.Config{
		"Endpoint":             {Endpoint: long},
		"Endpoint, not a URL":  {Endpoint: "http://[" + long},
		"Endpoint with a port": {Endpoint: "http://host:" + long},
		"Context":              {Context: map[string]interface{}{long: failingWith{long}}},
		"Integrations":         {Integrations: analytics.Integrations{long: failingWith{long}}},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := analytics.NewWithConfig("key", config)
			require.Error(t, err)
			requireClipped(t, err.Error())
		})
	}
	require.NoError(t, client.Close())
}

// An error about an attempt contains only a short part of the transport's error.
func TestErrorsOfAttemptsAreShort(t *testing.T) {
	for title, transport := range map[string]roundTripper{
		"error": func(*http.Request) (*http.Response, error) { return nil, errors.New(long) },
		"panic": func(*http.Request) (*http.Response, error) { panic(long) },
		"answer": func(r *http.Request) (*http.Response, error) {
			return (&http.Response{StatusCode: http.StatusForbidden, Body: http.NoBody, Header: http.Header{"Location": {long}}}), nil
		},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := make(chan error, 1)
				client, err := analytics.NewWithConfig("key", analytics.Config{
					Endpoint:    "http://host/" + long,
					HTTPClient:  &http.Client{Transport: transport},
					Slog:        slog.New(slog.DiscardHandler),
					MaxAttempts: 1,
					Backoff:     func(int) time.Duration { panic(long) },
					Callback:    func(r analytics.Result) { ends <- r.Err },
				})
				require.NoError(t, err)
				require.NoError(t, client.Track(&analytics.Track{UserId: "u", Event: "e"}))
				err = client.Close()
				require.ErrorAs(t, err, new(*analytics.UndeliveredError))
				requireClipped(t, err.Error())
				err = <-ends
				require.ErrorAs(t, err, new(*analytics.DropError))
				requireClipped(t, err.Error())
			})
		})
	}
}

// The log contains only a short part of a panic value.
func TestLoggedPanicsAreShort(t *testing.T) {
	for title, set := range map[string]func(*analytics.Config, *lines){
		"Logger": func(c *analytics.Config, l *lines) { c.Logger = l.logger() },
		"Slog":   func(c *analytics.Config, l *lines) { c.Slog = slog.New(slog.NewTextHandler(l, nil)) },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out lines
				config := analytics.Config{
					MaxAttempts: 2,
					Backoff:     func(int) time.Duration { panic(long) },
					Callback:    func(analytics.Result) { panic(long) },
				}
				set(&config, &out)
				client := newClient(t, always(answer{status: http.StatusInternalServerError}), config)
				message := analytics.Message{MessageId: long[:10_000]}
				require.NoError(t, client.Track(&analytics.Track{UserId: "u", Event: "e", Message: message}))
				require.Error(t, client.Close())
				require.Contains(t, strings.ToLower(out.String()), "backoff panicked")
				require.Contains(t, out.String(), "callback panicked")
				for line := range strings.Lines(out.String()) {
					requireClipped(t, line)
				}
			})
		})
	}
}
