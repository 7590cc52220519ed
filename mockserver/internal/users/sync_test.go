package users_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestAudienceSendsChanges(t *testing.T) {
	c, box := run(t, hooks("crm")...)

	s := synced(t, c, big("u2", "u1", "u3", "u1"))
	assert.Equal(t, []string{"crm u1 big_spenders=true", "crm u2 big_spenders=true", "crm u3 big_spenders=true"}, box.received())
	assert.Equal(t, users.SyncDone, s.State)
	assert.Equal(t, [4]int64{3, 3, 0, 3}, [4]int64{s.Users, s.Entered, s.Left, s.Sent})

	s = synced(t, c, big("u3", "u4", "u2"))
	assert.Equal(t, []string{"crm u1 big_spenders=false", "crm u4 big_spenders=true"}, box.received())
	assert.Equal(t, [4]int64{3, 1, 1, 2}, [4]int64{s.Users, s.Entered, s.Left, s.Sent})

	synced(t, c, big("u4", "u3", "u2"))
	assert.Empty(t, box.received(), "nothing has changed")

	full := big("u2", "u4")
	full.Full = true
	synced(t, c, full)
	assert.Equal(t, []string{"crm u2 big_spenders=true", "crm u3 big_spenders=false", "crm u4 big_spenders=true"}, box.received())
}

func TestAudienceCallFields(t *testing.T) {
	c, box := run(t, hooks("ads", "crm")...)
	a := big("u1")
	a.Destination = "crm"
	s := synced(t, c, a)

	got := box.take()
	require.Len(t, got, 1, "only the audience's destination gets the calls")
	d := got[0]
	assert.Equal(t, "identify", d.Type)
	assert.Equal(t, "Big Spenders", d.Context.Audience.Name)
	assert.Equal(t, "big_spenders", d.Context.Audience.Key)
	assert.Equal(t, 1, d.Context.Audience.Sync)
	assert.Equal(t, s.Timestamp, d.Timestamp)
	computation, _, _ := strings.Cut(s.ID, "-")
	assert.Equal(t, map[string]string{"computation_class": "audience", "computation_id": computation, "computation_key": "big_spenders"}, d.Context.Personas)

	call := c.History().Records(nil)[0].Call
	assert.Equal(t, "web", call.Source)
	assert.Equal(t, map[string]any{"All": false, "Webhooks": map[string]any{"destinations": []any{"crm"}}}, call.Integrations())
	assert.Equal(t, call.ID, d.id)
	assert.LessOrEqual(t, len(call.ID), 100)
	again, err := event.ReadCall("web", call.Body)
	require.NoError(t, err)
	assert.Equal(t, call, again, "the body matches the call")
}

func TestDryRunSendsNothing(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	dry := func(members ...string) users.Sync {
		a := big(members...)
		a.DryRun = true
		s, err := c.Users().StartSync(within(t), a)
		require.NoError(t, err)
		return s
	}
	s := dry("u1", "u2", "u2")
	assert.Equal(t, [3]int64{2, 2, 0}, [3]int64{s.Users, s.Entered, s.Left})
	assert.Empty(t, s.ID)
	all, err := c.Users().Computations(within(t))
	require.NoError(t, err)
	assert.Empty(t, all, "nothing was stored")

	synced(t, c, big("u1", "u2"))
	box.take()
	s = dry("u2", "u3", "u4")
	assert.Equal(t, [3]int64{3, 2, 1}, [3]int64{s.Users, s.Entered, s.Left})
	settle(t, c)
	assert.Empty(t, box.take())
	synced(t, c, big("u1", "u2"))
	assert.Empty(t, box.take(), "the dry run changed nothing")
}

func TestTraitSendsChangedValues(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	synced(t, c, trait(`{"userId":"u1","value":10}`, `{"userId":"u2","value":"gold"}`, `{"userId":"u3","value":null}`,
		`{"userId":"u4","value":1}`, `{"userId":"u4","value":{"b":[1],"a":2}}`))
	assert.Equal(t, []string{"crm u1 lifetime_value=10", "crm u2 lifetime_value=gold", "crm u4 lifetime_value=map[a:2 b:[1]]"}, box.received())
	synced(t, c, trait(`{"userId":"u1","value":10.0}`, `{"value":"silver","userId":"u2"}`, `{"userId":"u4","value":null}`))
	assert.Equal(t, []string{"crm u2 lifetime_value=silver", "crm u4 lifetime_value=<nil>"}, box.received())
	records := c.History().Records(nil)
	body := string(records[len(records)-1].Call.Body)
	assert.Contains(t, body, `"userId":"u4","traits":{"lifetime_value":null}`)
	assert.Contains(t, body, `"trait":{"key":"lifetime_value","name":"Lifetime Value","sync":2}`)

	synced(t, c, trait(`{"userId":"u1","value":11}`))
	assert.Equal(t, []string{"crm u1 lifetime_value=11", "crm u2 lifetime_value=<nil>"}, box.received())
}

// A gatedJournal stores calls only while its gate is open.
type gatedJournal struct {
	journal.Journal
	gate chan struct{} // closed to open the gate
}

func newGatedJournal() gatedJournal {
	return gatedJournal{journal.NewMemory(0), make(chan struct{})}
}

func (j gatedJournal) Append(ctx context.Context, b event.Batch) error {
	select {
	case <-j.gate:
		return j.Journal.Append(ctx, b)
	default:
		return journal.ErrFull
	}
}

func TestSyncsOfOneAudienceQueueUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		gated := newGatedJournal()
		config.Journal = gated
		c := start(t, config)
		lists := [][]string{{"u1", "u2"}, {"u2", "u3"}, {"u1"}, {"u1", "u4"}}
		var requested []users.Sync
		for _, members := range lists {
			s, err := c.Users().StartSync(t.Context(), big(members...))
			require.NoError(t, err)
			requested = append(requested, s)
		}
		_, err := c.Users().StartSync(t.Context(), audience("Other", "u9"))
		require.NoError(t, err)
		dry := big("u4")
		dry.DryRun = true
		counted, err := c.Users().StartSync(t.Context(), dry)
		require.NoError(t, err)
		assert.Equal(t, [2]int64{0, 1}, [2]int64{counted.Entered, counted.Left}, "compared with the last queued list")

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s, err := c.Users().WaitSync(short, requested[1].ID)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, users.SyncQueued, s.State)

		close(gated.gate)
		for _, s := range requested {
			_, err := c.Users().WaitSync(t.Context(), s.ID)
			require.NoError(t, err)
		}
		settle(t, c)
		bySync := map[int][]string{}
		for _, r := range c.History().Records(nil) {
			var d notice
			require.NoError(t, json.Unmarshal(r.Call.Body, &d))
			if n := d.Context.Audience.Sync; d.Context.Audience.Name == "Big Spenders" {
				bySync[n] = append(bySync[n], fmt.Sprintf("%s=%v", d.UserID, d.Traits["big_spenders"]))
				assert.Equal(t, requested[n-1].Timestamp, d.Timestamp)
			}
		}
		assert.Equal(t, map[int][]string{1: {"u1=true", "u2=true"}, 2: {"u1=false", "u3=true"}, 3: {"u1=true", "u2=false", "u3=false"}, 4: {"u4=true"}}, bySync)
		for i := range requested[1:] {
			assert.True(t, requested[i+1].Timestamp.After(requested[i].Timestamp))
		}

		all, err := c.Users().Computations(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 2)
		assert.Len(t, all[0].Syncs, 4)
		assert.EqualValues(t, 2, all[0].Users)
	})
}

func TestTooManySyncsLeaveNoData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		gated := newGatedJournal()
		config.Journal, config.State = gated, state.NewMemory()
		c := start(t, config)
		var last users.Sync
		for i := range 16 {
			s, err := c.Users().StartSync(t.Context(), big(fmt.Sprint(i)))
			require.NoError(t, err)
			last = s
		}
		_, err := c.Users().StartSync(t.Context(), big("one more"))
		require.ErrorIs(t, err, users.ErrTooManySyncs)
		close(gated.gate)
		_, err = c.Users().WaitSync(t.Context(), last.ID)
		require.NoError(t, err)
		synctest.Wait()
		keys, err := config.State.Keys(t.Context(), "segment")
		require.NoError(t, err)
		assert.Len(t, keys, 1, "the current list")
	})
}

func TestSyncReportsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource()
		gated := newGatedJournal()
		config.Journal = gated
		c := start(t, config)
		require.NoError(t, c.AddDestination(t.Context(), hooks("crm")[0]))
		s, err := c.Users().StartSync(t.Context(), big("u1"))
		require.NoError(t, err)
		waitsFor := func(why string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
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
		close(gated.gate)
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

func TestSyncLimitsPendingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		config.BatchCalls = 10 // limits pending calls to 400
		c := start(t, config)
		require.NoError(t, c.Pause(t.Context(), "crm"))
		s, err := c.Users().StartSync(t.Context(), audience("x", numbered(1000)...))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		ledgers, err := c.Ledger(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, ledgers[0].Pending, int64(400))
		assert.Greater(t, ledgers[0].Pending, int64(200))
		s, err = c.Users().Sync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.Equal(t, ledgers[0].Pending, s.Sent, "the record has the progress")
		assert.Contains(t, s.Waiting, "pending")
		require.NoError(t, c.Resume(t.Context(), "crm"))
		s, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.EqualValues(t, 1000, s.Sent)
	})
}

func TestInvalidSyncRequests(t *testing.T) {
	disabled := hooks("off")[0]
	disabled.Disabled = true
	elsewhere := hooks("ios-only")[0]
	elsewhere.Sources = []string{"ios"}
	c, box := run(t, append(hooks("crm", "ads"), disabled, elsewhere)...)
	for name, test := range map[string]struct {
		sync users.SyncRequest
		is   error
		want string
	}{
		"no name":             {sync: users.SyncRequest{Name: "!", Destination: "crm"}, want: "has no letters or digits"},
		"long name":           {sync: users.SyncRequest{Name: strings.Repeat("x", 256), Destination: "crm"}, want: "has 256 bytes"},
		"no destination":      {sync: users.SyncRequest{Name: "x"}, want: "destination: is empty: name one of crm, ads"},
		"unknown destination": {sync: users.SyncRequest{Name: "x", Destination: "CRM"}, is: state.ErrUnknown, want: `"CRM"`},
		"unknown source":      {sync: users.SyncRequest{Name: "x", Source: "ios", Destination: "crm"}, is: state.ErrUnknown, want: `"ios"`},
		"disabled":            {sync: users.SyncRequest{Name: "x", Destination: "off"}, want: "disabled"},
		"not connected":       {sync: users.SyncRequest{Name: "x", Destination: "ios-only"}, want: "not connected"},
		"empty":               {sync: users.SyncRequest{Name: "x", Destination: "crm"}, is: users.ErrEmptyList, want: `audience "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, test.sync.DryRun = range []bool{true, false} {
				test.sync.Kind, test.sync.List = users.KindAudience, strings.NewReader("\n")
				_, err := c.Users().StartSync(within(t), test.sync)
				require.ErrorContains(t, err, test.want)
				if test.is != nil {
					assert.ErrorIs(t, err, test.is)
				}
			}
		})
	}
	same := audience("lifetime value", "u1")
	same.Destination = "crm"
	synced(t, c, same)
	other := trait(`{"userId":"u","value":1}`)
	other.Destination = "crm"
	_, err := c.Users().StartSync(within(t), other)
	assert.ErrorIs(t, err, state.ErrExists)
	assert.Len(t, box.take(), 1)
}

func TestInvalidLists(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	longest := strings.Repeat("u", users.MaxUserIDBytes)
	broken := errors.New("connection lost")
	for name, test := range map[string]struct {
		kind users.ComputationKind
		list io.Reader
		want string
	}{
		"long ID":      {users.KindAudience, strings.NewReader("u1\n\n" + longest + "u\nu3\n"), "line 3"},
		"not UTF-8":    {users.KindAudience, strings.NewReader("u1\nu\xff\n"), "line 2: is"},
		"long line":    {users.KindAudience, strings.NewReader(strings.Repeat("u", 100_000)), "line 1"},
		"incomplete":   {users.KindAudience, io.MultiReader(strings.NewReader("u1\n"), iotest.ErrReader(broken)), broken.Error()},
		"no value":     {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1"}`), "line 2: cannot be read (it has no value"},
		"no user":      {users.KindTrait, strings.NewReader("\n" + `{"value":1}`), "line 2: is empty"},
		"more members": {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1","value":1,"x":2}`), `line 2: cannot be read (json: unknown field "x"`},
		"two objects":  {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1","value":1}{}`), "line 2: cannot be read (unexpected data after the value at byte 25"},
		"a brace":      {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1","value":1}}`), "line 2: cannot be read (unexpected data after the value at byte 25"},
		"invalid JSON": {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1","value":nope}`), "line 2"},
		"CSV":          {users.KindTrait, strings.NewReader("\n" + `u1,5`), "line 2"},
		"long value":   {users.KindTrait, strings.NewReader("\n" + `{"userId":"u1","value":"` + strings.Repeat("x", 17_000) + `"}`), "line 2: has a value of 17002 bytes: give at most 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Users().StartSync(within(t), users.SyncRequest{Kind: test.kind, Name: "x", List: test.list})
			require.ErrorContains(t, err, "the list of "+string(test.kind)+` "x": `)
			require.ErrorContains(t, err, test.want)
		})
	}
	all, err := c.Users().Computations(within(t))
	require.NoError(t, err)
	assert.Empty(t, all)
	assert.Empty(t, box.take())
}

func TestListFormat(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	longest := strings.Repeat("v", users.MaxUserIDBytes)
	a := audience("x")
	a.List = strings.NewReader("\uFEFFu1\r\n\r\n\nu 2 \n  \nu3\n" + longest + "\r\n")
	synced(t, c, a)
	var members []string
	for _, d := range box.take() {
		members = append(members, d.UserID)
	}
	assert.Equal(t, []string{"  ", "u 2 ", "u1", "u3", longest}, members)

	// This is the longest possible line. All its characters are escaped.
	synced(t, c, trait(`{"userId":"`+strings.Repeat(`\u0041`, 1024)+`","value":"`+strings.Repeat(`\u0041`, 16_000)+`"}`))
	got := box.take()
	require.Len(t, got, 1)
	assert.Len(t, got[0].UserID, 1024)
	assert.Len(t, got[0].Traits["lifetime_value"], 16_000)
}

// With AnyWriteKey, a source that is not in the settings can be the only source.
func TestSyncUsesTheOnlySeenSource(t *testing.T) {
	box := &inbox{}
	c := start(t, engine.Config{AnyWriteKey: true, Destinations: hooks("crm"), Sender: webhook.SenderConfig{Transport: box}})
	_, err := c.Users().StartSync(within(t), big("u1"))
	require.ErrorContains(t, err, "source: is empty: name the source; none is known yet")
	assert.Equal(t, http.StatusOK, send(c, "one", "/v1/track", `{"event":"E","userId":"u"}`))
	settle(t, c)
	box.take()
	synced(t, c, big("u1"))
	assert.Equal(t, []string{"crm u1 big_spenders=true"}, box.received())
	assert.Equal(t, http.StatusOK, send(c, "two", "/v1/track", `{"event":"E","userId":"u"}`))
	_, err = c.Users().StartSync(within(t), big("u1"))
	require.ErrorContains(t, err, "source: is empty: name one of ")
}

func TestAbandonedUploadsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, _ := oneSource(hooks("crm")...)
		config.State = state.NewMemory()
		segments := func() int {
			keys, err := config.State.Keys(t.Context(), "segment")
			require.NoError(t, err)
			return len(keys)
		}
		underWay := fmt.Sprintf("segment.%s.%011x%s.0", strings.Repeat("a", 16), time.Now().UnixMilli(), strings.Repeat("b", 24))
		require.NoError(t, config.State.Put(t.Context(), underWay, []byte("of another process")))
		require.NoError(t, config.State.Put(t.Context(), "segment.a.b.0", []byte("nobody's")))
		c := start(t, config)
		synctest.Wait()
		assert.Equal(t, 1, segments(), "uploads in progress stay")
		s, err := c.Users().StartSync(t.Context(), big("u1"))
		require.NoError(t, err)
		_, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		assert.Equal(t, 2, segments())
		time.Sleep(49 * time.Hour)
		assert.Equal(t, 1, segments(), "the current list stays")
	})
}

// The computation is deleted during the upload, so the list is treated as its first list.
func TestForgetDuringUpload(t *testing.T) {
	c, box := run(t, hooks("crm")...)
	s := synced(t, c, big("u1", "u2"))
	box.take()
	forget := func() {
		computation, _, _ := strings.Cut(s.ID, "-")
		require.NoError(t, c.Users().DeleteComputation(t.Context(), computation))
	}
	r := big()
	r.List = io.MultiReader(strings.NewReader("u2\n"), readerFunc(func([]byte) (int, error) { forget(); return 0, io.EOF }), strings.NewReader("u3\n"))
	s = synced(t, c, r)
	assert.Equal(t, 1, s.Number)
	assert.Equal(t, []string{"crm u2 big_spenders=true", "crm u3 big_spenders=true"}, box.received())
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
