package users_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A notice contains the tested fields of a webhook request: those of its body and its message ID.
type notice struct {
	Type      string
	UserID    string
	Traits    map[string]any
	Timestamp time.Time
	Context   struct {
		Audience, Trait struct {
			Name, Key string
			Sync      int
		}
		Personas map[string]string
	}
	id, host, body, signature string
}

// An inbox is an in-process webhook for all hosts.
type inbox struct {
	mu     sync.Mutex            // guards the fields below
	answer func(host string) int // returns the status for a host; 0 means 200
	got    []notice              // requests that received a 200 response
}

func (b *inbox) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d := notice{id: r.Header.Get("X-Message-Id"), host: r.URL.Host, body: string(body), signature: r.Header.Get("X-Signature")}
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	status := 0
	if b.answer != nil {
		status = b.answer(d.host)
	}
	if status = cmp.Or(status, http.StatusOK); status == http.StatusOK {
		b.got = append(b.got, d)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

// answers sets the status of responses.
func (b *inbox) answers(answer func(host string) int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

// take returns the requests since the previous take, sorted by host and user.
func (b *inbox) take() []notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	slices.SortFunc(got, func(x, y notice) int { return cmp.Compare(x.host+x.UserID, y.host+y.UserID) })
	return got
}

// received returns the requests since the previous take, formatted as "host user key=value" and
// sorted by host and user.
func (b *inbox) received() []string {
	var received []string
	for _, d := range b.take() {
		for key, value := range d.Traits {
			received = append(received, fmt.Sprintf("%s %s %s=%v", d.host, d.UserID, key, value))
		}
	}
	return received
}

// hooks returns a destination for each name, with the name as the host.
func hooks(names ...string) []tracking.Destination {
	var all []tracking.Destination
	for _, name := range names {
		all = append(all, tracking.Destination{
			Name: name, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://" + name}}},
		})
	}
	return all
}

// oneSource returns a configuration with one source and an inbox for the destinations.
func oneSource(destinations ...tracking.Destination) (engine.Config, *inbox) {
	box := &inbox{}
	return engine.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: destinations,
		Sender:       webhook.SenderConfig{Transport: box},
	}, box
}

// start starts a collector for the duration of the test.
func start(t *testing.T, config engine.Config) *engine.Collector {
	t.Helper()
	c, err := engine.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// run starts a collector with one source.
func run(t *testing.T, destinations ...tracking.Destination) (*engine.Collector, *inbox) {
	t.Helper()
	config, box := oneSource(destinations...)
	return start(t, config), box
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// settle waits until no call is pending.
func settle(t *testing.T, c *engine.Collector) {
	t.Helper()
	ctx := within(t)
	for {
		changed := c.History().Changed()
		ledgers, err := c.Ledger(ctx)
		require.NoError(t, err)
		if !slices.ContainsFunc(ledgers, func(l tracking.Ledger) bool { return l.Pending > 0 }) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("calls are still pending: %+v", ledgers)
		}
	}
}

// synced starts a sync, and waits for the end of the sync and its deliveries.
func synced(t *testing.T, c *engine.Collector, r users.SyncRequest) users.Sync {
	t.Helper()
	s, err := c.Users().StartSync(within(t), r)
	require.NoError(t, err)
	s, err = c.Users().WaitSync(within(t), s.ID)
	require.NoError(t, err)
	settle(t, c)
	return s
}

// audience returns a request with a list of members.
func audience(name string, members ...string) users.SyncRequest {
	return users.SyncRequest{Kind: users.KindAudience, Name: name, List: strings.NewReader(strings.Join(members, "\n"))}
}

func big(members ...string) users.SyncRequest { return audience("Big Spenders", members...) }

// trait returns a request with a list of a computed trait, one line per value.
func trait(values ...string) users.SyncRequest {
	return users.SyncRequest{Kind: users.KindTrait, Name: "Lifetime Value", List: strings.NewReader(strings.Join(values, "\n"))}
}

// send sends a request to the tracking API and returns the status.
func send(c *engine.Collector, writeKey, path, body string) int {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.SetBasicAuth(writeKey, "")
	res := httptest.NewRecorder()
	c.ServeHTTP(res, req)
	return res.Code
}

// numbered returns n user IDs.
func numbered(n int) []string {
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("user-%08d", i))
	}
	return ids
}
