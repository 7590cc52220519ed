package mockserver_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
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

// If a transform has no result in time, the call is retried. A failed call can be replayed after the
// program is fixed.
func TestTransformIsRetriedAndReplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		compile := func(program string) (webhook.Transform, error) {
			return func([]byte) ([]byte, error) {
				switch runs++; {
				case program == "fixed":
					return []byte(`{}`), nil
				case runs == 1:
					return nil, fmt.Errorf("too slow; %w", webhook.ErrRetryTransform)
				}
				return nil, errors.New("no total")
			}, nil
		}
		d := hook("crm", "http://h/crm")
		srv, h := inProcess(t, engine.Config{Transforms: compile, Store: state.NewMemory()})
		d.Transform = "broken"
		require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
		send(t, srv, track("a", 1))
		synctest.Wait()
		assert.EqualValues(t, 1, account(t, srv).Pending)
		record := srv.Engine().History().Records(nil)[0]
		last, _ := record.Last("crm")
		assert.Equal(t, "transform: too slow; the call is retried", last.Reason)

		time.Sleep(time.Minute)
		assert.EqualValues(t, 1, account(t, srv).Failed)
		problems := srv.Engine().Problems().Failed
		require.Len(t, problems, 1)
		assert.Equal(t, "transform: no total", problems[0].Cause)

		d.Transform = "fixed"
		require.NoError(t, srv.Engine().ChangeDestination(t.Context(), "crm", func(to *tracking.Destination) error { *to = d; return nil }))
		_, err := srv.Engine().Replay(t.Context(), "crm", engine.Selection{})
		require.NoError(t, err)
		synctest.Wait()
		assert.EqualValues(t, 1, account(t, srv).Delivered)
		assert.Len(t, h.times("/crm", time.Now()), 1)
	})
}

// If another version stored a program that does not compile, the collector starts, and the calls wait.
func TestStoredTransformThatDoesNotCompile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		config := engine.Config{Transforms: compileTest, Store: state.NewMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		srv, _ := inProcess(t, config)
		d := hook("crm", "http://h/crm")
		d.Transform = "short"
		require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
		require.NoError(t, srv.Close())

		config.Transforms = func(string) (webhook.Transform, error) { return nil, errors.New("not supported") }
		srv, _ = inProcess(t, config)
		assert.Contains(t, log.String(), "destinations[0].transform: is not a valid program: not supported")
		send(t, srv, track("a", 1))
		synctest.Wait()
		assert.EqualValues(t, 1, account(t, srv).Pending)
		require.NoError(t, srv.Close())

		_, err := mockserver.Run(mockserver.Config{Destinations: []tracking.Destination{d}, Transforms: config.Transforms})
		assert.ErrorContains(t, err, "destinations[0].transform: is not a valid program: not supported")
	})
}

func TestPreviewOfTransforms(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Transforms: func(program string) (webhook.Transform, error) {
		if program == "invalid" {
			return nil, errors.New("unexpected EOF")
		}
		return compileTest("short")
	}})
	post(t, srv.URL+"/v1/batch", "key", `{"batch":[{"type":"track","event":"Paid","userId":"u","messageId":"1"},{"type":"track","event":"Refunded","userId":"u","messageId":"2"},{"type":"track","event":"Tested","userId":"u","messageId":"3"}]}`)
	status, answer := askAdmin(t, srv, "POST", "/destinations/preview", `{"transform":"short"}`)
	require.Equal(t, http.StatusOK, status, answer)
	assert.Equal(t, []any{
		object{"reason": "transform: no refunds", "failed": true, "calls": 1.0},
		object{"reason": "transform: the program has no result for this call", "calls": 1.0},
	}, answer["reasons"])
	assert.Equal(t, 1.0, answer["sent"])
	examples := answer["examples"].([]any)
	require.Len(t, examples, 3)
	assert.Equal(t, true, examples[1].(object)["failed"])
	assert.Equal(t, object{"short": true}, examples[2].(object)["body"])
	assert.Equal(t, "Paid", examples[2].(object)["input"].(object)["event"])

	form := url.Values{"new": {"true"}, "url0": {""}, "transform": {"short"}}
	_, page := submit(t, srv.URL+"/destinations/preview", form)
	for _, want := range []string{
		"<b>1</b> of the last 3 calls would be delivered.", "1 would fail: <bdi>transform: no refunds</bdi>.",
		`{
  &#34;short&#34;: true
}`, "7 differences from the call", "<del><code><bdi>&#34;Paid&#34;</bdi></code></del>", `<a href="/?call=`,
	} {
		assert.Contains(t, page, want)
	}
	form["transform"] = []string{"invalid"}
	_, page = submit(t, srv.URL+"/destinations/preview", form)
	assert.Contains(t, page, "is not a valid program: unexpected EOF")
}

func TestInvalidTransformsInTheAPI(t *testing.T) {
	webhooks, relay := `"webhooks":[{"url":"http://127.0.0.1:1"}]`, `"type":"relay","writeKey":"key"`
	for want, test := range map[string]struct {
		config      mockserver.Config
		destination string
	}{
		"transform: is not a valid program: unknown program: fix the program; see docs/webhooks.md":                             {mockserver.Config{Transforms: compileTest}, webhooks},
		"transform: requires a collector that runs programs: use the command collector, or set Transforms in mockserver.Config": {mockserver.Config{}, webhooks},
		`transform: has no effect with type "relay": set type to "webhooks", or remove it`:                                      {mockserver.Config{Transforms: compileTest}, relay},
	} {
		srv := mockserver.RunT(t, test.config)
		status, answer := askAdmin(t, srv, "POST", "/destinations", `{"name":"crm",`+test.destination+`,"transform":"other"}`)
		assert.Equal(t, http.StatusUnprocessableEntity, status)
		assert.Contains(t, answer["message"], want)
	}
}

// TestTestCallWithoutBody tests a destination with a transform that has no result for the test call.
func TestTestCallWithoutBody(t *testing.T) {
	const problem = "could not create the test call: transform: the program has no result for this call"
	srv := mockserver.RunT(t, mockserver.Config{Transforms: func(string) (webhook.Transform, error) {
		return func([]byte) ([]byte, error) { return nil, nil }, nil
	}})
	d := hook("crm", "http://127.0.0.1:1")
	d.Transform = "empty"
	require.NoError(t, srv.Engine().AddDestination(t.Context(), d))
	status, answer := askAdmin(t, srv, "POST", "/destinations/crm/test", "")
	assert.Equal(t, http.StatusConflict, status)
	assert.Equal(t, object{"code": "no_payload", "message": problem}, answer)
	for _, header := range [][]string{nil, {"X-Fragment", "1"}} {
		_, page := submit(t, srv.URL+"/destinations/test", url.Values{"new": {"true"}, "url0": {"http://127.0.0.1:1"}, "transform": {"empty"}}, header...)
		assert.Contains(t, page, "C"+problem[1:]+".")
	}
}
