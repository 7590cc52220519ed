package mockserver_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
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
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A notice is the body of a webhook request, as far as tests look at it, and
// its message ID.
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

// An inbox is the webhook of every host, in process.
type inbox struct {
	answer func(n int, d notice) int // the status; nil: 200

	mu  sync.Mutex // guards what follows
	got []notice
	n   int // requests
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
	status := http.StatusOK
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
	if b.answer != nil {
		status = b.answer(b.n, d)
	}
	if status == http.StatusOK {
		b.got = append(b.got, d)
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(nil))}, nil
}

// take returns what came since the last take, by host and user.
func (b *inbox) take() []notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	got := b.got
	b.got = nil
	slices.SortFunc(got, func(x, y notice) int { return cmp.Compare(x.host+x.UserID, y.host+y.UserID) })
	return got
}

// told is what came since the last take, as "host user key=value" by host and user.
func (b *inbox) told() []string {
	var told []string
	for _, d := range b.take() {
		for key, value := range d.Traits {
			told = append(told, fmt.Sprintf("%s %s %s=%v", d.host, d.UserID, key, value))
		}
	}
	return told
}

// hooks makes a destination for each name, whose host is the name.
func hooks(names ...string) []tracking.Destination {
	var all []tracking.Destination
	for _, name := range names {
		all = append(all, tracking.Destination{
			Name: name, Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://" + name}}},
		})
	}
	return all
}

// run starts a server with one source and an inbox for the destinations.
func run(t *testing.T, destinations ...tracking.Destination) (*mockserver.Server, *inbox) {
	box := &inbox{}
	return mockserver.RunT(t, mockserver.Config{
		Sources:      []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: destinations,
		Sender:       webhook.SenderConfig{Transport: box},
	}), box
}

// settle waits until nothing is pending anywhere.
func settle(t *testing.T, c *engine.Collector) {
	t.Helper()
	settleBy(within(t), t, c)
}

func settleBy(ctx context.Context, t *testing.T, c *engine.Collector) {
	t.Helper()
	for {
		changed := c.History().Changed()
		ledgers, err := c.Ledger(ctx)
		require.NoError(t, err)
		if !slices.ContainsFunc(ledgers, func(l tracking.Ledger) bool { return l.Pending > 0 }) {
			return
		}
		select {
		case <-changed:
			time.Sleep(time.Millisecond) // counting what is pending takes its time: not at every change
		case <-ctx.Done():
			t.Fatalf("calls are still pending: %+v", ledgers)
		}
	}
}

// synced syncs, waits for the sync and for its deliveries.
func synced(t *testing.T, srv *mockserver.Server, a users.AudienceSync) users.Sync {
	t.Helper()
	s, err := srv.Engine().Users().SyncAudience(within(t), a)
	require.NoError(t, err)
	s, err = srv.Engine().Users().WaitSync(within(t), s.ID)
	require.NoError(t, err)
	settle(t, srv.Engine())
	return s
}

func big(members ...string) users.AudienceSync {
	return users.AudienceSync{Name: "Big Spenders", Members: users.Members(members...)}
}

func TestAudienceTellsWhoEnteredAndWhoLeft(t *testing.T) {
	srv, box := run(t, hooks("crm")...)

	s := synced(t, srv, big("u2", "u1", "u3", "u1"))
	assert.Equal(t, []string{"crm u1 big_spenders=true", "crm u2 big_spenders=true", "crm u3 big_spenders=true"}, box.told())
	assert.Equal(t, users.SyncDone, s.State)
	assert.Equal(t, [4]int64{3, 3, 0, 3}, [4]int64{s.Users, s.Entered, s.Left, s.Sent})

	s = synced(t, srv, big("u3", "u4", "u2"))
	assert.Equal(t, []string{"crm u1 big_spenders=false", "crm u4 big_spenders=true"}, box.told())
	assert.Equal(t, [4]int64{3, 1, 1, 2}, [4]int64{s.Users, s.Entered, s.Left, s.Sent})

	synced(t, srv, big("u4", "u3", "u2"))
	assert.Empty(t, box.told(), "nothing has changed")

	full := big("u2", "u4")
	full.Full = true
	synced(t, srv, full)
	assert.Equal(t, []string{"crm u2 big_spenders=true", "crm u3 big_spenders=false", "crm u4 big_spenders=true"}, box.told())
}

func TestAudienceCallsNameTheirAudienceAndTheirDestination(t *testing.T) {
	srv, box := run(t, hooks("ads", "crm")...)
	a := big("u1")
	a.Destination = "crm"
	s := synced(t, srv, a)

	got := box.take()
	require.Len(t, got, 1, "only the destination of the audience gets it")
	d := got[0]
	assert.Equal(t, "identify", d.Type)
	assert.Equal(t, "Big Spenders", d.Context.Audience.Name)
	assert.Equal(t, "big_spenders", d.Context.Audience.Key)
	assert.Equal(t, 1, d.Context.Audience.Sync)
	assert.Equal(t, s.Timestamp, d.Timestamp)
	computation, _, _ := strings.Cut(s.ID, "-")
	assert.Equal(t, map[string]string{"computation_class": "audience", "computation_id": computation, "computation_key": "big_spenders"}, d.Context.Personas)

	call := srv.Calls()[0]
	assert.Equal(t, "web", call.Source)
	assert.Equal(t, map[string]any{"All": false, "Webhooks": map[string]any{"destinations": []any{"crm"}}}, call.Integrations())
	assert.Equal(t, call.ID, d.id)
	assert.LessOrEqual(t, len(call.ID), 100)
	again, err := fields.ReadCall("web", call.Body)
	require.NoError(t, err)
	assert.Equal(t, call, again, "the body says what the call says")
	srv.Expect(t, mockserver.InState("ads", tracking.StateFiltered)) // the history is told after the ledger
}

func TestDryRunCountsAndSendsNothing(t *testing.T) {
	srv, box := run(t, hooks("crm")...)
	dry := func(members ...string) (s users.Sync) {
		a := big(members...)
		a.DryRun = true
		s, err := srv.Engine().Users().SyncAudience(within(t), a)
		require.NoError(t, err)
		return s
	}
	s := dry("u1", "u2", "u2")
	assert.Equal(t, [3]int64{2, 2, 0}, [3]int64{s.Users, s.Entered, s.Left})
	assert.Empty(t, s.ID)
	all, err := srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	assert.Empty(t, all, "nothing was stored")

	synced(t, srv, big("u1", "u2"))
	box.take()
	s = dry("u2", "u3", "u4")
	assert.Equal(t, [3]int64{3, 2, 1}, [3]int64{s.Users, s.Entered, s.Left})
	settle(t, srv.Engine())
	assert.Empty(t, box.take())
	synced(t, srv, big("u1", "u2"))
	assert.Empty(t, box.take(), "the dry run has changed nothing")
}

func TestTraitTellsChangedValues(t *testing.T) {
	srv, box := run(t, hooks("crm")...)
	sync := func(lines string) {
		t.Helper()
		s, err := srv.Engine().Users().SyncTrait(within(t), users.TraitSync{Name: "Lifetime Value", Values: users.ReadValues(strings.NewReader(lines))})
		require.NoError(t, err)
		_, err = srv.Engine().Users().WaitSync(within(t), s.ID)
		require.NoError(t, err)
		settle(t, srv.Engine())
	}
	sync(`{"userId":"u1","value":10}
		{"userId":"u2","value":"gold"}
		{"userId":"u3","value":null}
		{"userId":"u4","value":1}
		{"userId":"u4","value":{"b":[1],"a":2}}`)
	assert.Equal(t, []string{"crm u1 lifetime_value=10", "crm u2 lifetime_value=gold", "crm u4 lifetime_value=map[a:2 b:[1]]"}, box.told())
	sync(`{"userId":"u1","value":10.0}` + "\n" + `{"value":"silver","userId":"u2"}` + "\n" + `{"userId":"u4","value":null}`)
	assert.Equal(t, []string{"crm u2 lifetime_value=silver", "crm u4 lifetime_value=<nil>"}, box.told())
	body := srv.Calls(mockserver.OfUser("u4"))[1].Body
	assert.Contains(t, string(body), `"traits":{"lifetime_value":null}`)
	assert.Contains(t, string(body), `"trait":{"key":"lifetime_value","name":"Lifetime Value","sync":2}`)

	s, err := srv.Engine().Users().SyncTrait(within(t), users.TraitSync{Name: "Lifetime Value", Values: users.Values(map[string]any{"u1": 11})})
	require.NoError(t, err)
	_, err = srv.Engine().Users().WaitSync(within(t), s.ID)
	require.NoError(t, err)
	settle(t, srv.Engine())
	assert.Equal(t, []string{"crm u1 lifetime_value=11", "crm u2 lifetime_value=<nil>"}, box.told())
}

// A gatedJournal takes calls only while its gate is open.
type gatedJournal struct {
	journal.Journal
	gate chan struct{} // closed: open
	err  error         // instead of waiting, if any
}

func (j *gatedJournal) Append(ctx context.Context, b event.Batch) error {
	select {
	case <-j.gate:
		return j.Journal.Append(ctx, b)
	default:
	}
	if j.err != nil {
		return j.err
	}
	select {
	case <-j.gate:
		return j.Journal.Append(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSyncsOfOneAudienceQueueUp(t *testing.T) {
	box := &inbox{}
	journal := &gatedJournal{Journal: journal.NewMemory(0), gate: make(chan struct{})}
	srv := mockserver.RunEngine(t, engine.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}, Destinations: hooks("crm"),
		Sender: webhook.SenderConfig{Transport: box}, Journal: journal,
	})
	lists := [][]string{{"u1", "u2"}, {"u2", "u3"}, {"u1"}, {"u1", "u4"}}
	var requested []users.Sync
	for _, members := range lists {
		s, err := srv.Engine().Users().SyncAudience(within(t), big(members...))
		require.NoError(t, err)
		requested = append(requested, s)
	}
	other := big("u9")
	other.Name = "Other"
	_, err := srv.Engine().Users().SyncAudience(within(t), other)
	require.NoError(t, err)
	dry := big("u4")
	dry.DryRun = true
	counted, err := srv.Engine().Users().SyncAudience(within(t), dry)
	require.NoError(t, err)
	assert.Equal(t, [2]int64{0, 1}, [2]int64{counted.Entered, counted.Left}, "counted from the last in the queue")

	short, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := srv.Engine().Users().WaitSync(short, requested[1].ID)
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, users.SyncQueued, s.State)

	close(journal.gate)
	for _, s := range requested {
		_, err := srv.Engine().Users().WaitSync(within(t), s.ID)
		require.NoError(t, err)
	}
	settle(t, srv.Engine())
	bySync := map[int][]string{}
	for _, d := range box.take() {
		if n := d.Context.Audience.Sync; d.Context.Audience.Name == "Big Spenders" {
			bySync[n] = append(bySync[n], fmt.Sprintf("%s=%v", d.UserID, d.Traits["big_spenders"]))
			assert.Equal(t, requested[n-1].Timestamp, d.Timestamp)
		}
	}
	assert.Equal(t, map[int][]string{1: {"u1=true", "u2=true"}, 2: {"u1=false", "u3=true"}, 3: {"u1=true", "u2=false", "u3=false"}, 4: {"u4=true"}}, bySync)
	for i := range requested[1:] {
		assert.True(t, requested[i+1].Timestamp.After(requested[i].Timestamp))
	}

	all, err := srv.Engine().Users().Computations(within(t))
	require.NoError(t, err)
	require.Len(t, all, 2)
	assert.Len(t, all[0].Syncs, 4)
	assert.EqualValues(t, 2, all[0].Users)
}

func TestTooManySyncsAreRefusedAndLeaveNothing(t *testing.T) {
	state := state.NewMemory()
	journal := &gatedJournal{Journal: journal.NewMemory(0), gate: make(chan struct{})}
	srv := mockserver.RunEngine(t, engine.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}, Destinations: hooks("crm"),
		Sender: webhook.SenderConfig{Transport: &inbox{}}, Journal: journal, State: state,
	})
	var last users.Sync
	for i := range 16 {
		s, err := srv.Engine().Users().SyncAudience(within(t), big(fmt.Sprint(i)))
		require.NoError(t, err)
		last = s
	}
	_, err := srv.Engine().Users().SyncAudience(within(t), big("one more"))
	require.ErrorIs(t, err, users.ErrTooManySyncs)
	close(journal.gate)
	_, err = srv.Engine().Users().WaitSync(within(t), last.ID)
	require.NoError(t, err)
	srv.Close()
	keys, err := state.Keys(t.Context(), "segment")
	require.NoError(t, err)
	assert.Len(t, keys, 1, "the list that is current")
}

func TestASyncSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &gatedJournal{Journal: journal.NewMemory(0), gate: make(chan struct{}), err: journal.ErrFull}
		c, err := engine.New(engine.Config{
			Sources: []tracking.Source{{Name: "web", WriteKey: "key"}},
			Sender:  webhook.SenderConfig{Transport: &inbox{}}, Journal: journal,
		})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.AddDestination(t.Context(), hooks("crm")[0]))
		s, err := c.Users().SyncAudience(t.Context(), big("u1"))
		require.NoError(t, err)
		waitsFor := func(why string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			now, err := c.Users().Sync(t.Context(), s.ID)
			require.NoError(t, err)
			assert.Equal(t, users.SyncRunning, now.State)
			assert.Contains(t, now.Waiting, why)
		}
		disable := func(disabled bool) {
			require.NoError(t, c.ChangeDestination(t.Context(), "crm", func(d *tracking.Destination) error {
				d.Disabled = disabled
				return nil
			}))
		}
		waitsFor("the journal is full")
		disable(true)
		close(journal.gate)
		waitsFor(`"crm": is disabled`)
		time.Sleep(time.Hour)
		waitsFor(`"crm": is disabled`)
		disable(false)
		s, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.Empty(t, s.Waiting)
		assert.EqualValues(t, 1, s.Sent)
	})
}

func TestASyncAddsNoMoreThanItMayToABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := engine.New(engine.Config{
			Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}, Destinations: hooks("crm"),
			Sender:     webhook.SenderConfig{Transport: &inbox{}},
			BatchCalls: 10, // and so 400 pending
		})
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.Pause(t.Context(), "crm"))
		s, err := c.Users().SyncAudience(t.Context(), users.AudienceSync{Name: "x", Members: numbered(1000)})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		ledgers, err := c.Ledger(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, ledgers[0].Pending, int64(400))
		assert.Greater(t, ledgers[0].Pending, int64(200))
		s, err = c.Users().Sync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.Equal(t, ledgers[0].Pending, s.Sent, "the record tells how far it is")
		assert.Contains(t, s.Waiting, "pending")
		require.NoError(t, c.Resume(t.Context(), "crm"))
		s, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 1000, s.Sent)
	})
}

// numbered yields n user IDs.
func numbered(n int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := range n {
			if !yield(fmt.Sprintf("user-%08d", i), nil) {
				return
			}
		}
	}
}

func TestListsThatAreRefused(t *testing.T) {
	disabled := hooks("off")[0]
	disabled.Disabled = true
	elsewhere := hooks("ios-only")[0]
	elsewhere.Sources = []string{"ios"}
	srv, box := run(t, append(hooks("crm", "ads"), disabled, elsewhere)...)
	broken := errors.New("connection lost")
	list := func(err error, ids ...string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			if err != nil {
				yield("", err)
			}
		}
	}
	for name, test := range map[string]struct {
		sync users.AudienceSync
		is   error
		want string
	}{
		"no name":             {sync: users.AudienceSync{Name: "!", Destination: "crm"}, want: "has no letter and no digit"},
		"long name":           {sync: users.AudienceSync{Name: strings.Repeat("x", 256), Destination: "crm"}, want: "has 256 bytes"},
		"no destination":      {sync: users.AudienceSync{Name: "x"}, want: "destination: is empty: name one of crm, ads"},
		"unknown destination": {sync: users.AudienceSync{Name: "x", Destination: "CRM"}, is: state.ErrUnknown, want: `"CRM"`},
		"unknown source":      {sync: users.AudienceSync{Name: "x", Source: "ios", Destination: "crm"}, is: state.ErrUnknown, want: `"ios"`},
		"disabled":            {sync: users.AudienceSync{Name: "x", Destination: "off"}, want: "disabled"},
		"not connected":       {sync: users.AudienceSync{Name: "x", Destination: "ios-only"}, want: "not connected"},
		"empty":               {sync: users.AudienceSync{Name: "x", Destination: "crm"}, is: users.ErrEmptyList, want: `audience "x"`},
		"broken off":          {sync: users.AudienceSync{Name: "x", Destination: "crm", Members: list(broken, "u1")}, is: broken, want: "list of audience"},
		"empty ID":            {sync: users.AudienceSync{Name: "x", Destination: "crm", Members: list(nil, "u1", "")}, want: "empty"},
		"long ID":             {sync: users.AudienceSync{Name: "x", Destination: "crm", Members: list(nil, strings.Repeat("u", 1025))}, want: "1025 bytes"},
		"not UTF-8":           {sync: users.AudienceSync{Name: "x", Destination: "crm", Members: list(nil, "u\xff")}, want: "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, test.sync.DryRun = range []bool{true, false} {
				if test.sync.Members == nil {
					test.sync.Members = list(nil)
				}
				_, err := srv.Engine().Users().SyncAudience(within(t), test.sync)
				require.ErrorContains(t, err, test.want)
				if test.is != nil {
					assert.ErrorIs(t, err, test.is)
				}
			}
		})
	}
	synced(t, srv, users.AudienceSync{Name: "score", Destination: "crm", Members: list(nil, "u1")})
	_, err := srv.Engine().Users().SyncTrait(within(t), users.TraitSync{Name: "Score", Destination: "crm", Values: users.Values(map[string]any{"u": 1})})
	assert.ErrorIs(t, err, state.ErrExists)
	assert.Len(t, box.take(), 1)
}

func TestReadMembersAndValues(t *testing.T) {
	collect := func(text string) (ids []string, err error) {
		for id, err := range users.ReadMembers(strings.NewReader(text)) {
			if err != nil {
				return ids, err
			}
			ids = append(ids, id)
		}
		return ids, nil
	}
	ids, err := collect("\uFEFFu1\r\n\r\n\nu 2 \n  \nu3")
	require.NoError(t, err)
	assert.Equal(t, []string{"u1", "u 2 ", "  ", "u3"}, ids)
	longest := strings.Repeat("u", users.MaxUserIDBytes)
	ids, err = collect(longest + "\r\n")
	require.NoError(t, err)
	assert.Equal(t, []string{longest}, ids)
	_, err = collect("u1\n\n" + longest + "u\nu3\n")
	assert.ErrorContains(t, err, "line 3")
	_, err = collect("u1\nu\xff\n")
	assert.ErrorContains(t, err, "line 2")
	_, err = collect(strings.Repeat("u", 100_000))
	assert.ErrorContains(t, err, "line 1")

	for text, want := range map[string]string{
		`{"userId":"u1"}`:                 "it has no value",
		`{"value":1}`:                     "empty",
		`{"userId":"u1","value":1,"x":2}`: `unknown field "x"`,
		`{"userId":"u1","value":1}{}`:     "goes on after the object",
		`{"userId":"u1","value":1}}`:      "goes on after the object",
		`{"userId":"u1","value":nope}`:    "line 2",
		`u1,5`:                            "line 2",
		`{"userId":"u1","value":"` + strings.Repeat("x", 17_000) + `"}`: "at most 16384",
	} {
		var failed error
		for _, err := range users.ReadValues(strings.NewReader("\n" + text)) {
			failed = err
		}
		assert.ErrorContains(t, failed, want, text)
		assert.ErrorContains(t, failed, "line 2", text)
	}
	escaped := `{"userId":"` + strings.Repeat(`\u0041`, 1024) + `","value":"` + strings.Repeat(`\u0041`, 16_000) + `"}`
	for v, err := range users.ReadValues(strings.NewReader(escaped)) {
		require.NoError(t, err)
		assert.Len(t, v.UserID, 1024)
	}
}

// TestSyncFindsTheOnlySourceThatWasSeen: where any write key makes a source, none
// need be in the settings.
func TestSyncFindsTheOnlySourceThatWasSeen(t *testing.T) {
	box := &inbox{}
	srv := mockserver.RunT(t, mockserver.Config{Destinations: hooks("crm"), Sender: webhook.SenderConfig{Transport: box}})
	_, err := srv.Engine().Users().SyncAudience(within(t), big("u1"))
	require.ErrorContains(t, err, "source: is empty: name the source; none is known yet")
	post(t, srv.URL+"/v1/track", "one", `{"event":"E","userId":"u"}`)
	_, err = srv.Wait(within(t), 1, mockserver.DeliveredTo("crm"))
	require.NoError(t, err)
	box.take()
	synced(t, srv, big("u1"))
	assert.Equal(t, []string{"crm u1 big_spenders=true"}, box.told())
	post(t, srv.URL+"/v1/track", "two", `{"event":"E","userId":"u"}`)
	_, err = srv.Engine().Users().SyncAudience(within(t), big("u1"))
	require.ErrorContains(t, err, "source: is empty: name one of ")
}

func TestASyncWithoutAListIsRefused(t *testing.T) {
	srv := mockserver.RunT(t, mockserver.Config{Destinations: []tracking.Destination{hook("d", "http://127.0.0.1:1")}})
	_, err := srv.Engine().Users().SyncAudience(t.Context(), users.AudienceSync{Name: "A", Source: "s", AllowEmpty: true})
	assert.ErrorContains(t, err, "members: is nil")
	_, err = srv.Engine().Users().SyncTrait(t.Context(), users.TraitSync{Name: "A", Source: "s", AllowEmpty: true})
	assert.ErrorContains(t, err, "values: is nil")
}
