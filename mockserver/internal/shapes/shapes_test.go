package shapes_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// now is the default receivedAt of the calls in tests.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// call parses a call of a source.
func call(t testing.TB, source, body string) tracking.Call {
	t.Helper()
	c, err := event.ReadCall(source, []byte(body))
	require.NoError(t, err)
	if c.ReceivedAt.IsZero() {
		c.ReceivedAt = now
	}
	return c
}

// observe reports stored calls to s.
func observe(s *shapes.Shapes, calls ...tracking.Call) {
	s.Observe(event.Accepted{Batch: event.Batch{Source: calls[0].Source, ReceivedAt: calls[0].ReceivedAt, Calls: calls}})
}

// track observes a track call of source web for each of the properties.
func track(t testing.TB, s *shapes.Shapes, name string, properties ...string) {
	t.Helper()
	for i, p := range properties {
		observe(s, call(t, "web", fmt.Sprintf(`{"type":"track","event":%q,"messageId":"m%d","userId":"u","properties":%s}`, name, i, p)))
	}
}

func times(n int, text string) []string { return slices.Repeat([]string{text}, n) }

func onlyEvent(t testing.TB, s *shapes.Shapes) *shapes.Event {
	t.Helper()
	events := s.Events()
	require.Len(t, events, 1)
	return &events[0]
}

func TestPropertiesOfCalls(t *testing.T) {
	s := shapes.New()
	track(t, s, "Order Completed",
		`{"total":12.5,"currency":"EUR","items":[{"sku":"a","qty":1},{"sku":"b"}],"address":{"city":"Ulm"},"a.b":true,"gone":null}`,
		`{"total":7,"currency":"EUR","items":[],"at":"2026-11-23T12:00:00Z","mail":"ada@shop.example","id":"0190b6c3-6c6e-7000-8000-000000000001","day":"2026-11-23","url":"https://shop.example/x","count":"12"}`)
	e := onlyEvent(t, s)
	assert.Equal(t, []any{"web", "track", "Order Completed", uint64(2), uint64(2), now, now},
		[]any{e.Source, e.Type, e.Name, e.Calls, e.Sampled, e.FirstSeen, e.LastSeen})
	got := map[string]string{}
	for _, p := range e.Properties {
		line := fmt.Sprintf("%d of 2 calls:", p.Calls)
		for _, typ := range p.Types {
			line += fmt.Sprintf(" %d %s", typ.Count, typ.Name)
			for _, f := range typ.Formats {
				line += " " + f.Name
			}
		}
		for _, v := range p.Common {
			line += fmt.Sprintf(" %s×%d", v.JSON, v.Count)
		}
		got[p.Path] = line
	}
	assert.Equal(t, map[string]string{
		"total":        "2 of 2 calls: 1 number 1 integer 12.5×1 7×1",
		"currency":     `2 of 2 calls: 2 string "EUR"×2`,
		"items":        "2 of 2 calls: 2 array",
		"items[]":      "1 of 2 calls: 2 object",
		"items[].sku":  `1 of 2 calls: 2 string "a"×1 "b"×1`,
		"items[].qty":  "1 of 2 calls: 1 integer 1×1",
		"address":      "1 of 2 calls: 1 object",
		"address.city": `1 of 2 calls: 1 string "Ulm"×1`,
		`["a.b"]`:      "1 of 2 calls: 1 boolean true×1",
		"gone":         "1 of 2 calls: 1 null",
		"at":           `1 of 2 calls: 1 string date-time "2026-11-23T12:00:00Z"×1`,
		"mail":         `1 of 2 calls: 1 string email "ada@shop.example"×1`,
		"id":           `1 of 2 calls: 1 string uuid "0190b6c3-6c6e-7000-8000-000000000001"×1`,
		"day":          `1 of 2 calls: 1 string date "2026-11-23"×1`,
		"url":          `1 of 2 calls: 1 string uri "https://shop.example/x"×1`,
		"count":        `1 of 2 calls: 1 string number "12"×1`,
	}, got)
	assert.Equal(t, []string{"currency", "items"}, []string{e.Properties[0].Path, e.Properties[1].Path}, "the most frequent come first")
}

func TestEventsPerCallType(t *testing.T) {
	s := shapes.New()
	for _, body := range []string{
		`{"type":"track","event":"E","messageId":"1"}`,
		`{"type":"page","name":"Home","messageId":"2","properties":{"path":"/"}}`,
		`{"type":"screen","name":"Home","messageId":"3"}`,
		`{"type":"identify","userId":"u","messageId":"4","traits":{"plan":"Pro"},"properties":{"no":1}}`,
		`{"type":"group","userId":"u","groupId":"g","messageId":"5","traits":{"seats":3}}`,
		`{"type":"alias","userId":"u","previousId":"p","messageId":"6"}`,
		`{"type":"delete","userId":"u","messageId":"7"}`,
	} {
		observe(s, call(t, "web", body))
	}
	observe(s, call(t, "ios", `{"type":"track","event":"E","messageId":"1"}`))
	var got []string
	for _, e := range s.Events() {
		line := e.Source + " " + e.Type + " " + e.Name
		for _, p := range e.Properties {
			line += " " + p.Path
		}
		got = append(got, line)
	}
	assert.Equal(t, []string{"ios track E", "web group  seats", "web identify  plan", "web page Home path", "web screen Home", "web track E"}, got)
}

func TestAnomalies(t *testing.T) {
	for _, c := range []struct {
		name       string
		properties []string
		want       []string
	}{
		{"a string among numbers", slices.Concat(times(9, `{"quantity":2}`), times(1, `{"quantity":"2"}`)),
			[]string{"quantity is usually a number, but a string in 10 % (1 of 10 values)"}},
		{"integers are numbers", []string{`{"total":2}`, `{"total":2.5}`}, nil},
		{"null is not a type", slices.Concat(times(9, `{"coupon":"A"}`), times(1, `{"coupon":null}`)), nil},
		{"the first type is unusual", slices.Concat(times(1, `{"ok":"yes"}`), times(3, `{"ok":true}`)),
			[]string{"ok is usually a boolean, but a string in 25 % (1 of 4 values)"}},
		{"three types", slices.Concat(times(8, `{"v":{}}`), times(2, `{"v":[]}`), times(1, `{"v":"x"}`)),
			[]string{"v is usually an object, but an array in 18 % (2 of 11 values)", "v is usually an object, but a string in 9.1 % (1 of 11 values)"}},
		{"an element of an array", []string{`{"items":[{"qty":1},{"qty":1},{"qty":"1"}]}`},
			[]string{"items[].qty is usually a number, but a string in 33 % (1 of 3 values)"}},
		{"values that differ in case", slices.Concat(times(97, `{"currency":"EUR"}`), times(3, `{"currency":"eur"}`)),
			[]string{`currency has similar values: "eur" (3) and "EUR" (97)`}},
		{"values that differ in white space", slices.Concat(times(2, `{"plan":"Pro"}`), times(1, `{"plan":" Pro"}`)),
			[]string{`plan has similar values: " Pro" (1) and "Pro" (2)`}},
		{"similar property names", slices.Concat(times(4, `{"userId":"a"}`), times(2, `{"userId":"a","user_id":"a"}`)),
			[]string{"user_id (2 calls) is similar to userId (6 calls)"}},
		{"similar names in different objects", []string{`{"id":1,"item":{"ID":1}}`}, nil},
		{"a property that is no longer sent", slices.Concat(times(100, `{"a":1,"tax":{"rate":1}}`), times(40, `{"a":1}`)),
			[]string{"tax was in 100 % of the calls, but is in none of the last 40 sampled calls"}},
		{"a rare property is missing by chance", slices.Concat(slices.Concat(slices.Repeat([][]string{slices.Concat(times(1, `{"a":1,"coupon":"X"}`), times(9, `{"a":1}`))}, 10)...), times(40, `{"a":1}`)), nil},
		{"a new property", slices.Concat(times(40, `{"a":1}`), times(100, `{"a":1,"tax":1}`)),
			[]string{"tax is new: it is in none of the first 40 sampled calls, and in 100 % since then"}},
		{"too few calls", slices.Concat(times(19, `{"a":1}`), times(19, `{"a":1,"tax":1}`)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // according to the clock in the bubble, the calls are new
				s := shapes.New()
				for i, p := range c.properties {
					observe(s, call(t, "web", fmt.Sprintf(`{"type":"track","event":"E","messageId":"m%d","userId":"u","receivedAt":%q,"properties":%s}`, i, time.Now().UTC().Format(time.RFC3339), p)))
				}
				var got []string
				for _, o := range onlyEvent(t, s).Anomalies {
					got = append(got, o.Text)
				}
				assert.Equal(t, c.want, got)
			})
		})
	}
}

func TestSimilarEventNames(t *testing.T) {
	s := shapes.New()
	track(t, s, "Order Completed", times(3, `{}`)...)
	track(t, s, "order_completed", `{}`)
	track(t, s, "Signed Up", `{}`)
	observe(s, call(t, "ios", `{"type":"track","event":"orderCompleted","messageId":"1"}`))
	observe(s, call(t, "ios", `{"type":"track","event":"Signed Up","messageId":"2"}`))
	got := map[string][]shapes.Anomaly{}
	for _, e := range s.Events() {
		for i := range e.Anomalies {
			other, ok := s.Event(e.Anomalies[i].Other)
			assert.True(t, ok)
			assert.NotEqual(t, e.Name, other.Name)
			e.Anomalies[i].Other = ""
		}
		got[e.Source+" "+e.Name] = e.Anomalies
	}
	assert.Equal(t, map[string][]shapes.Anomaly{
		"web Order Completed": {{Kind: shapes.SimilarEvents, Text: "Order Completed (3 calls) is similar to orderCompleted of source ios (1 call)"}},
		"web order_completed": {{Kind: shapes.SimilarEvents, Text: "order_completed (1 call) is similar to Order Completed (3 calls)"}},
		"ios orderCompleted":  {{Kind: shapes.SimilarEvents, Text: "orderCompleted (1 call) is similar to Order Completed of source web (3 calls)"}},
		"web Signed Up":       {},
		"ios Signed Up":       {},
	}, got)
}

func TestUnusualTypeLinksNewestCall(t *testing.T) {
	s := shapes.New()
	track(t, s, "E", `{"n":"first"}`, `{"n":1}`, `{"n":1}`, `{"n":1}`)
	observe(s, call(t, "web", `{"type":"track","event":"E","messageId":"newest","receivedAt":"2026-11-23T12:00:01Z","properties":{"n":"second"}}`))
	p := onlyEvent(t, s).Property("n")
	require.NotNil(t, p)
	assert.Equal(t, []string{"integer", ""}, []string{p.Types[0].Name, p.Types[0].Call})
	assert.Equal(t, []string{"string", "newest"}, []string{p.Types[1].Name, p.Types[1].Call})
}

func TestPlanViolationsAreCounted(t *testing.T) {
	s := shapes.New()
	c := call(t, "web", `{"type":"track","event":"E","messageId":"1"}`)
	c.Violations = []tracking.Violation{{Kind: "missing property", Pointer: "/properties/total", Message: "total is missing", Plan: "shop"}}
	good := call(t, "web", `{"type":"track","event":"E","messageId":"2"}`)
	observe(s, c, good, c)
	e := onlyEvent(t, s)
	assert.EqualValues(t, 2, e.Violating)
	assert.Equal(t, []shapes.Violation{{Violation: c.Violations[0], Calls: 2, LastSeen: now, Call: "1"}}, e.Violations)
}

func TestFind(t *testing.T) {
	s := shapes.New()
	bodies := []string{
		`{"qty":1,"items":[{"sku":"a"},{"sku":2}],"a.b":"x","currency":"EUR"}`,
		`{"qty":"1","items":[],"currency":"eur"}`,
		`{"qty":1.5,"items":"none","currency":"\u0065ur"}`,
	}
	track(t, s, "E", bodies...)
	e := onlyEvent(t, s)
	for _, c := range []struct {
		path, typ, value string
		want             []int
	}{
		{"qty", "", "", []int{0, 1, 2}},
		{"qty", "string", "", []int{1}},
		{"qty", "integer", "", []int{0, 2}},
		{"items", "array", "", []int{0, 1}},
		{"items[].sku", "", "", []int{0}},
		{"items[].sku", "integer", "", []int{0}},
		{"items[].sku", "boolean", "", nil},
		{`["a.b"]`, "", "", []int{0}},
		{"currency", "", `"eur"`, []int{1, 2}},
		{"currency", "number", `"eur"`, nil},
	} {
		p := e.Property(c.path)
		require.NotNil(t, p, c.path)
		var got []int
		for i, b := range bodies {
			body := call(t, "web", `{"type":"track","event":"E","messageId":"m","properties":`+b+`}`)
			if len(e.Find(&body, p, c.typ, c.value)) > 0 {
				got = append(got, i)
			}
		}
		assert.Equal(t, c.want, got, "%+v", c)
	}
	other := call(t, "web", `{"type":"track","event":"F","messageId":"m","properties":{"qty":1}}`)
	assert.Empty(t, e.Find(&other, e.Property("qty"), "", ""), "another event")
}

func TestDeleteAndClear(t *testing.T) {
	s := shapes.New()
	track(t, s, "A", `{"a":1}`)
	track(t, s, "B", `{"b":1}`)
	a := s.Events()[0]
	assert.False(t, s.Delete("none"))
	assert.True(t, s.Delete(a.ID))
	assert.Equal(t, "B", onlyEvent(t, s).Name)
	track(t, s, "A", `{"a":1}`)
	again, ok := s.Event(a.ID)
	assert.True(t, ok)
	assert.EqualValues(t, 1, again.Calls, "it starts again")
	s.Clear()
	assert.Empty(t, s.Events())
}

// TestFrequentEventsAreSampled sends more calls of one event than are sampled, and then one
// call of another event.
func TestFrequentEventsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shapes.New()
		flood := call(t, "web", `{"type":"track","event":"Flood","messageId":"1","properties":{"n":1}}`)
		for range 50 {
			batch := make([]tracking.Call, 1000)
			for i := range batch {
				batch[i] = flood
			}
			observe(s, batch...)
		}
		track(t, s, "Rare", `{"a":1}`)
		events := s.Events()
		require.Len(t, events, 2)
		assert.EqualValues(t, 50_000, events[0].Calls, "all calls are counted")
		assert.Less(t, events[0].Sampled, uint64(10_000))
		assert.Greater(t, events[0].Sampled, uint64(3_000))
		assert.Equal(t, events[0].Sampled, events[0].Properties[0].Calls, "shares refer to sampled calls")
		assert.EqualValues(t, 1, events[1].Sampled)

		time.Sleep(time.Minute)
		track(t, s, "Flood", `{"n":1}`)
		assert.Equal(t, events[0].Sampled+1, s.Events()[0].Sampled, "the tokens are refilled")
	})
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name  string
		send  func(s *shapes.Shapes)
		check func(t *testing.T, s *shapes.Shapes)
	}{
		{"events of a source", func(s *shapes.Shapes) {
			for i := range 5000 {
				track(t, s, fmt.Sprint("Event ", i), `{}`)
			}
			observe(s, call(t, "ios", `{"type":"track","event":"E","messageId":"1"}`))
		}, func(t *testing.T, s *shapes.Shapes) {
			assert.Len(t, s.Events(), 1001, "another source is not limited")
			assert.EqualValues(t, 4000, s.Summary().Others)
		}},
		{"a long name", func(s *shapes.Shapes) { track(t, s, strings.Repeat("n", 201), `{}`) }, func(t *testing.T, s *shapes.Shapes) {
			assert.Empty(t, s.Events())
			assert.EqualValues(t, 1, s.Summary().Others)
		}},
		{"properties of an object", func(s *shapes.Shapes) {
			for i := range 1000 {
				track(t, s, "E", fmt.Sprintf(`{"p%d":1}`, i))
			}
		}, func(t *testing.T, s *shapes.Shapes) {
			assert.Equal(t, 200, len(onlyEvent(t, s).Properties))
			assert.EqualValues(t, 800, onlyEvent(t, s).Others)
		}},
		{"a long property", func(s *shapes.Shapes) { track(t, s, "E", `{"`+strings.Repeat("p", 101)+`":1}`) }, func(t *testing.T, s *shapes.Shapes) {
			assert.Empty(t, onlyEvent(t, s).Properties)
			assert.EqualValues(t, 1, onlyEvent(t, s).Others)
		}},
		{"depth", func(s *shapes.Shapes) {
			track(t, s, "E", `{"a":`+strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)+`,"b":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`)
		}, func(t *testing.T, s *shapes.Shapes) {
			assert.NotNil(t, onlyEvent(t, s).Property("a.a.a.a.a"))
			assert.NotNil(t, onlyEvent(t, s).Property("b[][][][]"))
			assert.Len(t, onlyEvent(t, s).Properties, 10)
		}},
		{"a long array", func(s *shapes.Shapes) { track(t, s, "E", `{"a":[1`+strings.Repeat(",1", 99)+`]}`) }, func(t *testing.T, s *shapes.Shapes) {
			assert.EqualValues(t, 20, onlyEvent(t, s).Property("a[]").Values)
			assert.EqualValues(t, 1, onlyEvent(t, s).Cut)
		}},
		{"many values of a property are samples", func(s *shapes.Shapes) {
			for i := range 100 {
				track(t, s, "E", fmt.Sprintf(`{"id":"o-%d"}`, i))
			}
		}, func(t *testing.T, s *shapes.Shapes) {
			p := onlyEvent(t, s).Property("id")
			assert.Empty(t, p.Common)
			assert.Len(t, p.Samples, 3)
		}},
		{"a long value is truncated", func(s *shapes.Shapes) { track(t, s, "E", `{"text":"`+strings.Repeat("ä", 100)+`"}`) }, func(t *testing.T, s *shapes.Shapes) {
			p := onlyEvent(t, s).Property("text")
			require.Len(t, p.Samples, 1)
			assert.LessOrEqual(t, len(p.Samples[0].JSON), 53, "48 bytes, an ellipsis and quotes")
			assert.True(t, json.Valid(p.Samples[0].JSON))
		}},
		{"bytes of an event", func(s *shapes.Shapes) {
			for i := range 200 {
				var b strings.Builder
				for j := range 100 {
					fmt.Fprintf(&b, `,"m%d":"%d"`, j, i)
				}
				track(t, s, "E", fmt.Sprintf(`{"p%d":{"x":1%s}}`, i, b.String()))
			}
		}, func(t *testing.T, s *shapes.Shapes) {
			assert.Less(t, len(onlyEvent(t, s).Properties), 350)
			assert.Positive(t, onlyEvent(t, s).Others)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // according to the clock outside the bubble, the calls are old
				s := shapes.New()
				c.send(s)
				c.check(t, s)
			})
		})
	}
}

func TestStaleEventIsEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shapes.New()
		send := func(source, event string) {
			observe(s, call(t, source, fmt.Sprintf(`{"type":"track","event":%q,"messageId":"1","receivedAt":%q}`, event, time.Now().UTC().Format(time.RFC3339))))
		}
		for i := range 2000 {
			send([]string{"web", "ios"}[i%2], fmt.Sprint("Event ", i))
		}
		time.Sleep(time.Hour)
		send("new", "New")
		send("new", "New")
		assert.Len(t, s.Events(), 2000, "all events had calls within a day")
		assert.EqualValues(t, 2, s.Summary().Others)
		time.Sleep(24 * time.Hour)
		send("new", "New")
		send("new", "New")
		assert.Len(t, s.Events(), 2000)
		events := s.Events()
		assert.Contains(t, []string{events[1000].Name, events[999].Name}, "New")
	})
}

// TestMemoryIsBounded sends calls that need more memory than the accounted size suggests, for more
// events and properties than the limits allow.
func TestMemoryIsBounded(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs additional memory")
	}
	for _, c := range []struct {
		name       string
		properties func(event, call int) string
	}{
		{"nested small objects", func(_, call int) string {
			return fmt.Sprintf(`{"a%d":{"b":{"c":{"d":1}}},"e%d":[[[[]]]]}`, call, call)
		}},
		{"short names", func(_, call int) string { return fmt.Sprintf(`{"%d":1,"%d":null,"x%d":true}`, call, -call, call) }},
		{"long names", func(_, call int) string { return fmt.Sprintf(`{"%s%d":1}`, strings.Repeat("n", 90), call) }},
		{"many values", func(_, call int) string {
			return fmt.Sprintf(`{"p%[1]d":"%[2]s %[3]d","q%[1]d":"%[2]s %[3]d","r%[1]d":"%[2]s %[3]d"}`, call/12, strings.Repeat("v", 40), call)
		}},
		{"many kinds", func(_, call int) string {
			return fmt.Sprintf(`{"p%[1]d":%[2]s,"q%[1]d":%[2]s,"r%[1]d":%[2]s}`, call/7, []string{"1", "1.5", "true", `"text"`, "{}", "[]", `"a@b.example"`}[call%7])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := heap()
				s := shapes.New()
				for e := range 220 {
					for n := range 200 {
						observe(s, call(t, "web", fmt.Sprintf(`{"type":"track","event":"Event %d","messageId":"0190b6c3-6c6e-7000-8000-%012d","properties":%s}`, e, n, c.properties(e, n))))
					}
					time.Sleep(time.Second) // refills the tokens
				}
				used := heap() - before
				t.Logf("%.1f MB", float64(used)/1e6)
				assert.Less(t, used, int64(20<<20))
				runtime.KeepAlive(s)
			})
		})
	}
}

// heap returns the used memory in bytes.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfAMillionCalls observes 500 events with 50 properties each, some with few and
// some with many values.
func TestMemoryOfAMillionCalls(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector needs additional memory")
	}
	synctest.Test(t, testMemoryOfAMillionCalls)
}

func testMemoryOfAMillionCalls(t *testing.T) {
	const events, properties = 500, 50
	before := heap()
	s := shapes.New()
	for round := range 20 {
		for e := range events {
			var b strings.Builder
			fmt.Fprintf(&b, `{"type":"track","event":"Event number %d","messageId":"0190b6c3-6c6e-7000-8000-%012d","properties":{`, e, round)
			for p := range properties {
				if p > 0 {
					b.WriteByte(',')
				}
				switch p % 4 {
				case 0:
					fmt.Fprintf(&b, `"property_%d":"value %d"`, p, round%8)
				case 1:
					fmt.Fprintf(&b, `"property_%d":%d.5`, p, 1000*e+round)
				case 2:
					fmt.Fprintf(&b, `"property_%d":"%08d-text of some length"`, p, 1000*e+round)
				case 3:
					fmt.Fprintf(&b, `"property_%d":%t`, p, round%2 == 0)
				}
			}
			b.WriteString("}}")
			c := call(t, "web", b.String())
			batch := make([]tracking.Call, 100) // 20 × 500 × 100 calls are a million
			for i := range batch {
				batch[i] = c
			}
			observe(s, batch...)
		}
		time.Sleep(2 * time.Second) // refills the tokens
	}
	calls, sampled, known := uint64(0), uint64(0), 0
	for _, e := range s.Events() {
		calls += e.Calls
		sampled += e.Sampled
		known += len(e.Properties)
	}
	used := heap() - before
	t.Logf("%d calls, %d sampled, %d events, %d properties: %.1f MB", calls, sampled, events, known, float64(used)/1e6)
	assert.EqualValues(t, 1_000_000, calls)
	assert.Equal(t, events*properties, known)
	assert.Less(t, used, int64(20<<20))
	runtime.KeepAlive(s)
}

// BenchmarkEvents lists 500 events with 50 properties each, like the Events page.
func BenchmarkEvents(b *testing.B) {
	s := shapes.New()
	var properties strings.Builder
	properties.WriteByte('{')
	for p := range 50 {
		if p > 0 {
			properties.WriteByte(',')
		}
		fmt.Fprintf(&properties, `"property_%d":"value"`, p)
	}
	properties.WriteByte('}')
	for e := range 500 {
		track(b, s, fmt.Sprint("Event ", e), properties.String())
	}
	for b.Loop() {
		if len(s.Events()) != 500 {
			b.Fatal("events are missing")
		}
	}
}

// TestSourceEvictsItsOwnEvents checks that events of other sources are not evicted.
func TestSourceEvictsItsOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := shapes.New()
		at := func(source, name string) {
			c := call(t, source, fmt.Sprintf(`{"type":"track","event":%q,"userId":"u"}`, name))
			c.ReceivedAt = time.Now()
			observe(s, c)
		}
		at("other", "Oldest")
		time.Sleep(time.Minute)
		for i := range 1000 {
			at("web", fmt.Sprint("Event ", i))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(25 * time.Hour)
		at("web", "New")
		at("web", "New")
		_, known := s.Named("web", "track", "New")
		assert.True(t, known)
		_, known = s.Named("web", "track", "Event 0")
		assert.False(t, known)
		_, known = s.Named("other", "track", "Oldest")
		assert.True(t, known)
	})
}
