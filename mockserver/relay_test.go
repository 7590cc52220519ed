package mockserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// relayTo returns a destination that relays calls with the write key "key".
func relayTo(endpoint string) tracking.Destination {
	return tracking.Destination{Name: "relay", Settings: webhook.Settings{Type: webhook.TypeRelay, Endpoint: endpoint, WriteKey: "key"}}
}

// relays starts an in-process server that relays all calls to another handler.
func relays(t *testing.T, to http.Handler) *mockserver.Server {
	return mockserver.RunEngineInProcess(t, engine.Config{
		Destinations: []tracking.Destination{relayTo("http://other")},
		Sender:       webhook.SenderConfig{Transport: mockserver.NewTransport(to)},
	})
}

// payloads starts an in-process server with a webhook, and returns a function that returns the bodies
// of the requests to the webhook, sorted.
func payloads(t *testing.T) (*mockserver.Server, func() []string) {
	var mu sync.Mutex
	var bodies []string
	srv, h := inProcess(t, engine.Config{Destinations: []tracking.Destination{hook("d", "http://h/hook")}})
	h.answer("/hook", func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		bodies = append(bodies, string(body))
	})
	return srv, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Sorted(slices.Values(bodies))
	}
}

// reasonOf returns the reason of the relay's latest result.
func reasonOf(r tracking.Record) string {
	last, _ := r.Last("relay")
	return last.Reason
}

// A webhook receives the same payloads from a collector behind a relay as from a collector that receives
// the calls directly from the client library.
func TestRelayedCallsEqualDirectCalls(t *testing.T) {
	golden, err := os.ReadFile("../testdata/wire/batch.json")
	require.NoError(t, err)
	const wrongClock = `{"sentAt":"2020-01-01T00:00:10.000Z","context":{"library":{"name":"l"}},"integrations":{"Other":true},"batch":[
		{"type":"track","event":"Late","userId":"u","timestamp":"2020-01-01T00:00:00.000Z","messageId":"late","properties":{"id":9007199254740993}},
		{"type":"page","anonymousId":"a","messageId":"untimed"}]}`
	synctest.Test(t, func(t *testing.T) {
		second, relayed := payloads(t)
		first := relays(t, second.Handler())
		direct, want := payloads(t)
		for _, body := range []string{string(golden), wrongClock} {
			send(t, first, body)
			send(t, direct, body)
		}
		time.Sleep(5 * time.Second)
		require.Len(t, want(), len(direct.Calls()))
		assert.Equal(t, want(), relayed())
		assert.EqualValues(t, len(direct.Calls()), account(t, first).Delivered)

		for _, c := range direct.Calls() {
			got := second.Expect(t, mockserver.WithID(c.ID)).Call
			assert.Equal(t, c.Timestamp, got.Timestamp)
			assert.Equal(t, c.Context(), got.Context())
			assert.Equal(t, c.Integrations(), got.Integrations())
			assert.Equal(t, "key", got.Source)
			assert.Equal(t, got.ReceivedAt, got.SentAt, "the time of the relay's request")
		}
	})
}

// A relay follows the settings and rules of other destinations.
func TestRelayIsADestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		second := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = append(seen, r.URL.Path) })
		d := relayTo("http://other/prefix")
		d.Order, d.Events.Deny = tracking.OrderUser, []string{"Heartbeat"}
		srv := mockserver.RunEngineInProcess(t, engine.Config{Destinations: []tracking.Destination{d}, Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(second)}})
		send(t, srv, single("a", "u"))
		send(t, srv, single("b", "u"))
		send(t, srv, `{"batch":[{"type":"track","event":"Heartbeat","userId":"u"}]}`)
		time.Sleep(5 * time.Second)
		assert.Equal(t, tracking.Ledger{Destination: "relay", Accepted: 3, Delivered: 2, Filtered: 1}, account(t, srv))
		assert.Equal(t, []string{"/prefix/v1/batch", "/prefix/v1/batch"}, seen, "one call of a user at a time")
		attempts, err := srv.Engine().SendTest(t.Context(), d, "identify")
		require.NoError(t, err)
		require.Len(t, attempts, 1)
		assert.Equal(t, webhook.Success, attempts[0].Verdict)
		assert.Contains(t, string(attempts[0].RequestBody), `{"batch":[{`, "the attempt shows the body before compression")
	})
}

// With a wrong write key, the calls wait. They are delivered once the key is corrected.
func TestRelayWithWrongKeyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := mockserver.RunEngineInProcess(t, engine.Config{Sources: []tracking.Source{{Name: "shop", WriteKey: "right"}}})
		requests := 0
		first := relays(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			second.Handler().ServeHTTP(w, r)
		}))
		send(t, first, track("m", 150))
		time.Sleep(30 * time.Second)
		assert.Equal(t, engine.DestinationHeld, first.Engine().Status()[0].State)
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 150, account(t, first).Pending)
		assert.LessOrEqual(t, requests, 4*11, "requests in ten minutes")
		assert.Equal(t, `http://other/v1/batch: responded with 401 (Unauthorized); check the write key: no source has the write key k…2c70e12b`, reasonOf(first.Records()[0]))

		d := relayTo("http://other")
		d.WriteKey = "right"
		require.NoError(t, first.Engine().Apply(t.Context(), settings.Settings{Destinations: []tracking.Destination{d}}))
		assert.Zero(t, first.Engine().Status()[0].HeldUntil, "a new key ends the pause")
		time.Sleep(10 * time.Minute)
		assert.EqualValues(t, 150, account(t, first).Delivered)
		assert.Len(t, second.Calls(), 150)
	})
}

// The API does not show the write key, keeps it if a request omits it, and does not send it to another
// endpoint.
func TestRelayInAPI(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{})
	key := func() string { return srv.Engine().Settings().Destinations[0].WriteKey }
	status, answer := askAdmin(t, srv, "POST", "/destinations", `{"name":"r","type":"relay","endpoint":"https://a.example","writeKey":"secret-key"}`)
	require.Equal(t, http.StatusCreated, status, answer)
	assert.NotContains(t, fmt.Sprint(answer), "secret-key")
	assert.Equal(t, []any{}, answer["webhooks"])
	for _, c := range []struct {
		path, body string
		status     int
		problem    any
		key        string
	}{
		{"/r", `{"maxPerSecond":5}`, 200, nil, "secret-key"},
		{"/r", `{"endpoint":"https://b.example"}`, 422, "writeKey: belongs to the previous endpoint: enter the write key for the new endpoint", "secret-key"},
		{"/r", `{"endpoint":"","region":"eu"}`, 422, "writeKey: belongs to the previous endpoint: enter the write key for the new endpoint", "secret-key"},
		{"/r", `{"endpoint":"https://a.example/v1"}`, 200, nil, "secret-key"},
		{"/r", `{"endpoint":"","region":"eu","writeKey":"another-key"}`, 200, nil, "another-key"},
		{"/r", `{"writeKey":" another"}`, 422, "writeKey: begins or ends with white space: remove it; a value from a file may end with a line break", "another-key"},
		{"/r", `{"endpoint":"http://10.0.0.1","region":"","writeKey":"k"}`, 422, `endpoint: points to 10.0.0.1, which is not allowed: private network 10.0.0.0/8: use a public address, or, if the receiver is yours, set egress.allow: ["10.0.0.0/8"]`, "another-key"},
		{"/r", `{"type":"webhooks","webhooks":[{"url":"https://a.example"}],"region":"","writeKey":""}`, 200, nil, ""},
	} {
		status, answer := askAdmin(t, srv, "PATCH", "/destinations"+c.path, c.body)
		assert.Equal(t, c.status, status, c.body)
		assert.Equal(t, c.problem, answer["message"], c.body)
		assert.Equal(t, c.key, key(), c.body)
	}
	status, answer = askAdmin(t, srv, "POST", "/destinations/preview", `{"type":"relay","sources":[]}`)
	assert.Equal(t, http.StatusOK, status, answer)
}

// A loop of relays ends, directly or through another collector.
func TestRelayLoopEnds(t *testing.T) {
	t.Run("itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var itself http.Handler
			srv := relays(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { itself.ServeHTTP(w, r) }))
			itself = srv.Handler()
			send(t, srv, single("m", "u"))
			time.Sleep(30 * time.Minute)
			require.Len(t, srv.Calls(), 1)
			assert.Equal(t, "http://other/v1/batch: responded with 508 (Loop Detected); the endpoint is this collector: the request comes from a relay of this collector; set its endpoint to another collector",
				reasonOf(srv.Records()[0]))
			assert.EqualValues(t, 1, account(t, srv).Pending)
		})
	})
	t.Run("through another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var first *mockserver.Server
			requests := 0
			second := relays(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				first.Handler().ServeHTTP(w, r)
			}))
			first = relays(t, second.Handler())
			sendAs(t, first, "another source", single("m", "u"))
			time.Sleep(30 * time.Minute)
			assert.Len(t, first.Calls(), 2, "the call of the other source, and the call of the relay")
			assert.Len(t, second.Calls(), 1)
			assert.Equal(t, 1, requests)
			assert.EqualValues(t, 2, account(t, first).Delivered)
		})
	})
}

// The relay does not lose or duplicate calls during any kind of fault of the other collector.
func TestRelaySurvivesFaults(t *testing.T) {
	for name, fault := range map[string]func(n int, w http.ResponseWriter) (failed bool){
		"429": func(n int, w http.ResponseWriter) bool {
			if n%3 == 0 {
				return false
			}
			w.Header().Set("Retry-After", "20")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		},
		"500s": func(n int, w http.ResponseWriter) bool {
			if n%4 == 0 {
				return false
			}
			w.WriteHeader(http.StatusInternalServerError)
			return true
		},
		"410 and 415": func(n int, w http.ResponseWriter) bool {
			if n > 2 {
				return false
			}
			w.WriteHeader([]int{http.StatusGone, http.StatusUnsupportedMediaType}[n-1])
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				second := mockserver.RunEngineInProcess(t, engine.Config{})
				var mu sync.Mutex
				requests := 0
				first := relays(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					requests++
					n := requests
					mu.Unlock()
					if !fault(n, w) {
						second.Handler().ServeHTTP(w, r)
					}
				}))
				send(t, first, track("m", 1000))
				time.Sleep(4 * time.Hour)
				assert.Equal(t, tracking.Ledger{Destination: "relay", Accepted: 1000, Delivered: 1000}, account(t, first))
				assert.Len(t, second.Calls(), 1000)
				for _, r := range second.Records() {
					assert.Zero(t, r.Repeats)
				}
			})
		})
	}
}

// Real client libraries send one call of each type, and the relay forwards them unchanged.
func TestRelayedClientLibraries(t *testing.T) {
	t.Parallel()
	needClients(t)
	for _, library := range clientLibraries {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			sources := []tracking.Source{{Name: "shop", WriteKey: "key-of-the-shop"}}
			second := mockserver.RunT(t, mockserver.Config{Strict: true, Sources: sources})
			d := relayTo(second.URL)
			d.WriteKey = "key-of-the-shop"
			first := mockserver.RunT(t, mockserver.Config{Strict: true, Sources: sources, Destinations: []tracking.Destination{d}})
			runLibrary(t, library, first.URL)
			_, err := second.Wait(within(t), 6)
			require.NoError(t, err)
			_, err = first.Wait(within(t), 6, mockserver.DeliveredTo("relay"))
			require.NoError(t, err)
			for _, sent := range first.Calls() {
				got := second.Expect(t, mockserver.WithID(sent.ID)).Call
				assert.WithinDuration(t, sent.Timestamp, got.Timestamp, time.Second, "the clocks are equal")
				sent.ReceivedAt, sent.SentAt, sent.OriginalTimestamp, sent.Timestamp = got.ReceivedAt, got.SentAt, got.OriginalTimestamp, got.Timestamp
				assert.Equal(t, fieldsOf(t, sent), fieldsOf(t, got))
				sent.Body, got.Body = nil, nil
				assert.Equal(t, sent, got)
			}
			assert.Len(t, second.Calls(), 6)
			assert.Empty(t, second.Engine().History().Refusals())
		})
	}
}

// fieldsOf returns the fields of a call except its times, undecoded.
func fieldsOf(t *testing.T, c tracking.Call) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(c.Body, &all))
	for _, name := range []string{"receivedAt", "sentAt", "originalTimestamp", "timestamp"} {
		delete(all, name)
	}
	return all
}

// A call that the other collector cannot accept fails with the reason, and the others are delivered.
func TestRelayedCallTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		second := mockserver.RunEngineInProcess(t, engine.Config{})
		d := relayTo("http://other")
		first := mockserver.RunEngineInProcess(t, engine.Config{
			Destinations: []tracking.Destination{d}, Limits: tracking.Limits{CallBytes: 64 << 10},
			Sender: webhook.SenderConfig{Transport: mockserver.NewTransport(second.Handler())},
		})
		send(t, first, fmt.Sprintf(`{"batch":[{"type":"page","userId":"u","messageId":"large","properties":{"text":%q}},{"type":"page","userId":"u","messageId":"small"}]}`, strings.Repeat("x", 40<<10)))
		time.Sleep(time.Minute)
		assert.Equal(t, tracking.Ledger{Destination: "relay", Accepted: 2, Delivered: 1, Failed: 1}, account(t, first))
		large := first.Expect(t, mockserver.WithID("large"))
		assert.Regexp(t, `^the call has 410\d\d bytes; other collectors accept at most 32768$`, reasonOf(large))
	})
}
