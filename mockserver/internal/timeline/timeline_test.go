package timeline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/timeline"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// A world is a history with a clock.
type world struct {
	t *testing.T
	h *history.History
	n int
}

func newWorld(t *testing.T) *world { return &world{t: t, h: history.New(0)} }

// add records a call with a timestamp that is the given duration after start. The call arrives
// at the same time, unless members contains the field receivedAt.
func (w *world) add(after time.Duration, members string) {
	w.n++
	at := start.Add(after)
	if !strings.Contains(members, `"receivedAt"`) {
		members += fmt.Sprintf(`,"receivedAt":%q`, at.Format(time.RFC3339))
	}
	body := fmt.Sprintf(`{"messageId":"m%d","timestamp":%q,%s}`, w.n, at.Format(time.RFC3339), members)
	c, err := event.ReadCall("web", []byte(body))
	require.NoError(w.t, err)
	w.h.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: []tracking.Call{c}}})
}

func messageIDs(tl timeline.Timeline) (ids []string) {
	for _, e := range tl.Entries {
		ids = append(ids, e.Call().ID)
	}
	return ids
}

func TestReadOrdersCallsByTime(t *testing.T) {
	w := newWorld(t)
	w.add(0, `"type":"page","anonymousId":"a1"`)
	w.add(time.Minute, `"type":"track","event":"X","userId":"somebody else"`)
	w.add(time.Hour, `"type":"identify","anonymousId":"a1","userId":"ada"`)
	w.add(75*time.Hour, `"type":"track","event":"Y","userId":"ada"`)
	w.add(30*time.Minute, `"type":"track","event":"late","anonymousId":"a1","receivedAt":"2026-02-02T12:30:00Z"`)
	for _, id := range []string{"ada", "a1"} {
		tl := timeline.Read(w.h, id, -1, 100)
		assert.Equal(t, []string{"m1", "m5", "m3", "m4"}, messageIDs(tl), id)
		assert.Equal(t, 4, tl.Total)
		assert.Equal(t, id, tl.IDs[0].ID)
		require.Len(t, tl.IDs, 2)
		assert.Equal(t, "m3", tl.IDs[1].Via.MessageID)
		assert.Equal(t, id, tl.IDs[1].To)
		var gaps, late []time.Duration
		for _, e := range tl.Entries {
			gaps, late = append(gaps, e.Gap), append(late, e.Late)
		}
		assert.Equal(t, []time.Duration{0, 30 * time.Minute, 30 * time.Minute, 74 * time.Hour}, gaps)
		assert.Equal(t, []time.Duration{0, 48 * time.Hour, 0, 0}, late)
		assert.Nil(t, tl.Entries[0].Link)
		assert.Equal(t, "a1", tl.Entries[2].Link.Before)
	}
}

func TestReadWindow(t *testing.T) {
	w := newWorld(t)
	for i := range 25 {
		w.add(time.Duration(i)*time.Second, fmt.Sprintf(`"type":"identify","userId":"ada","traits":{"n":%d}`, i))
	}
	for _, c := range []struct {
		from, size  int
		first, last string
		at          int
	}{
		{-1, 10, "m16", "m25", 15}, {0, 10, "m1", "m10", 0}, {10, 10, "m11", "m20", 10},
		{20, 10, "m21", "m25", 20}, {-1, 100, "m1", "m25", 0}, {99, 10, "", "", 25},
	} {
		tl := timeline.Read(w.h, "ada", c.from, c.size)
		ids := append(messageIDs(tl), "")
		assert.Equal(t, c.first, ids[0])
		assert.Equal(t, c.last, ids[max(0, len(ids)-2)])
		assert.Equal(t, c.at, tl.From)
		assert.Equal(t, 25, tl.Total)
		if len(tl.Entries) > 0 && c.from > 0 {
			assert.Equal(t, time.Second, tl.Entries[0].Gap, "since the call before the window")
			assert.Equal(t, fmt.Sprint(c.from-1), tl.Entries[0].Traits.Lines[0].First, "from an identify call before the window")
		}
	}
}

func TestReadUnknownID(t *testing.T) {
	w := newWorld(t)
	w.add(0, `"type":"track","event":"X","userId":"ada"`)
	for _, id := range []string{"", "nobody"} {
		tl := timeline.Read(w.h, id, -1, 10)
		assert.Empty(t, tl.Entries)
		assert.Zero(t, tl.Total)
		assert.Equal(t, 1, tl.Retained)
	}
}

func TestReadIncludesRejectedCalls(t *testing.T) {
	w := newWorld(t)
	w.add(0, `"type":"track","event":"X","userId":"ada"`)
	w.h.Observe(tracking.Rejection{Source: "web", ReceivedAt: start.Add(time.Minute), Body: []byte(`{"type":"track","userId":"ada"}`), Code: tracking.CodeNoEvent})
	w.h.Observe(event.Refusal{Source: "web", At: start})
	tl := timeline.Read(w.h, "ada", -1, 10)
	require.Len(t, tl.Entries, 2)
	assert.NotNil(t, tl.Entries[1].Rejection)
	assert.Equal(t, time.Minute, tl.Entries[1].Gap)
}

func TestReadCountsOmittedCalls(t *testing.T) {
	w := newWorld(t)
	var calls []tracking.Call
	for i := range timeline.MaxCalls + 7 {
		calls = append(calls, tracking.Call{Source: "web", ID: fmt.Sprint("c", i), Type: "track", UserID: "robot", Timestamp: start.Add(time.Duration(i) * time.Second), Body: []byte("{}")})
	}
	w.h.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: calls}})
	tl := timeline.Read(w.h, "robot", 0, 10)
	assert.Equal(t, timeline.MaxCalls, tl.Total)
	assert.Equal(t, 7, tl.Older)
	assert.Equal(t, "c7", tl.Entries[0].Call().ID, "the newest are retained")
	assert.True(t, tl.PartialTraits)
}

func TestCountSince(t *testing.T) {
	w := newWorld(t)
	w.add(0, `"type":"track","event":"X","userId":"ada"`)
	tl := timeline.Read(w.h, "ada", -1, 10)
	assert.Zero(t, timeline.CountSince(w.h, "ada", tl.End))
	w.add(time.Minute, `"type":"track","event":"X","userId":"somebody else"`)
	assert.Zero(t, timeline.CountSince(w.h, "ada", tl.End))
	w.add(time.Minute, `"type":"track","event":"X","anonymousId":"a1"`)
	w.add(time.Minute, `"type":"identify","anonymousId":"a1","userId":"ada"`)
	assert.Equal(t, 2, timeline.CountSince(w.h, "ada", tl.End), "one call is the user's because of the other")
	assert.Equal(t, 3, timeline.CountSince(w.h, "ada", 0))
	assert.Zero(t, timeline.CountSince(w.h, "", 0))
}

// TestTraitsHistory checks the changes of each identify call.
func TestTraitsHistory(t *testing.T) {
	for name, c := range map[string]struct {
		traits []string // traits of consecutive identify calls; "" for a call without traits
		want   []string // expected changes of the last call: path, kind, old value, new value
		equal  int
		stand  string
	}{
		"first":                 {[]string{`{"plan":"Free","age":36}`}, []string{`plan added  "Free"`, `age added  36`}, 0, `{"plan":"Free","age":36}`},
		"changed":               {[]string{`{"plan":"Free","age":36}`, `{"plan":"Pro"}`}, []string{`plan changed "Free" "Pro"`}, 0, `{"plan":"Pro","age":36}`},
		"repeated":              {[]string{`{"plan":"Free","age":36}`, `{"age":36.0}`}, nil, 1, `{"plan":"Free","age":36.0}`},
		"added":                 {[]string{`{"plan":"Free"}`, `{"age":36}`}, []string{`age added  36`}, 0, `{"plan":"Free","age":36}`},
		"null":                  {[]string{`{"plan":"Free"}`, `{"plan":null}`}, []string{`plan changed "Free" null`}, 0, `{"plan":null}`},
		"an object is replaced": {[]string{`{"home":{"city":"Rome","zip":"1"}}`, `{"home":{"city":"Bonn"}}`}, []string{`home.city changed "Rome" "Bonn"`, `home.zip removed "1" `}, 0, `{"home":{"city":"Bonn"}}`},
		"long numbers":          {[]string{`{"n":12345678901234567890}`, `{"n":12345678901234567891}`}, []string{`n changed 12345678901234567890 12345678901234567891`}, 0, `{"n":12345678901234567891}`},
		"twice in one call":     {[]string{`{"a":1,"a":2}`}, []string{`a added  2`}, 0, `{"a":2}`},
		"escaped":               {[]string{`{"\u0061":1}`, `{"a":2}`}, []string{`["\u0061"] changed 1 2`}, 0, `{"\u0061":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for i, traits := range c.traits {
				w.add(time.Duration(i)*time.Minute, `"type":"identify","userId":"ada","traits":`+traits)
				w.add(time.Duration(i)*time.Minute+1, `"type":"group","groupId":"g","userId":"ada","traits":{"of":"the group"}`)
			}
			for _, window := range []int{100, 2} { // a window with all calls, and one with only the last calls
				tl := timeline.Read(w.h, "ada", -1, window)
				last := tl.Entries[len(tl.Entries)-2]
				var got []string
				for _, l := range last.Traits.Lines {
					got = append(got, fmt.Sprintf("%s %s %s %s", l.Path, l.Kind, l.First, l.Second))
				}
				assert.Equal(t, c.want, got)
				assert.Equal(t, c.equal, last.Traits.Equal)
				assert.Equal(t, c.stand, string(tl.Traits))
				assert.Equal(t, c.stand, string(last.Traits.Traits))
				assert.Nil(t, tl.Entries[len(tl.Entries)-1].Traits, "group call")
			}
		})
	}
}

// TestTraitsAreLimited checks the size limit, because anyone can send traits with new names.
func TestTraitsAreLimited(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		many := map[string]string{}
		for j := range 100 {
			many[fmt.Sprint("trait ", i, " ", j)] = strings.Repeat("x", 200)
		}
		text, err := json.Marshal(many)
		require.NoError(t, err)
		w.add(time.Duration(i)*time.Minute, `"type":"identify","userId":"ada","traits":`+string(text))
	}
	tl := timeline.Read(w.h, "ada", -1, 100)
	assert.Less(t, len(tl.Traits), 70<<10)
	assert.True(t, tl.PartialTraits)
	assert.Len(t, tl.Entries[0].Traits.Lines, 50)
	assert.Equal(t, 50, tl.Entries[0].Traits.More)
	assert.True(t, json.Valid(tl.Traits))
}

func BenchmarkReadOfAHundredThousandCalls(b *testing.B) {
	for name, identify := range map[string]bool{"tracks": false, "identifies": true} {
		b.Run(name, func(b *testing.B) {
			h := history.New(0)
			for i := range 100_000 {
				c := tracking.Call{Source: "web", ID: fmt.Sprint(i), Type: "track", UserID: fmt.Sprint("user-", i%1000), AnonymousID: fmt.Sprint("anon-", i%1000), Timestamp: start.Add(time.Duration(i) * time.Second), Body: []byte(`{"traits":{"plan":"Pro"},"properties":{"total":25.5}}`)}
				if identify {
					c.Type = "identify"
				}
				h.Observe(event.Accepted{Batch: event.Batch{Source: "web", Calls: []tracking.Call{c}}})
			}
			b.ResetTimer()
			for b.Loop() {
				if tl := timeline.Read(h, "user-7", -1, 200); tl.Total != 100 {
					b.Fatal(tl.Total)
				}
			}
		})
	}
}
