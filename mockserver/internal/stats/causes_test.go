package stats_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestCauseOmitsVariableParts(t *testing.T) {
	for _, c := range []struct{ reason, want string }{
		{"https://h/x?k=1: responded with 400 (Bad Request): order 17 unknown", "responded with 400 (Bad Request): order … unknown"},
		{"responded with 400 (Bad Request): order 18 unknown", "responded with 400 (Bad Request): order … unknown"},
		{"responded with 404 (Not Found)", "responded with 404 (Not Found)"},
		{"responded with 503 (Service Unavailable)", "responded with 503 (Service Unavailable)"},
		{"http://127.0.0.1:9/: could not connect: dial tcp 127.0.0.1:41234->127.0.0.1:9: connect: connection refused", "could not connect: dial tcp …->…: connect: connection refused"},
		{"no response within 5s", "no response within 5s"},
		{"user 0190a5c1-77b2-7cc0-9ac4-3a3b8c0f5b2e is not known", "user … is not known"},
		{"no user ada@example.com here", "no user … here"},
		{"4 hours have passed since the call was accepted; https://h/: responded with 500 (Internal Server Error)", "responded with 500 (Internal Server Error)"},
		{"https://a/: responded with 400 (Bad Request); https://b/: responded with 400 (Bad Request)", "responded with 400 (Bad Request)"},
		{"https://a/: responded with 400 (Bad Request); https://b/: responded with 500 (Internal Server Error)", "responded with 400 (Bad Request); responded with 500 (Internal Server Error)"},
		{"unknown field: couponCode.", "unknown field: couponCode."},
		{"", ""},
	} {
		if got := stats.CauseOf(c.reason); got != c.want {
			t.Errorf("the cause of %q is %q, want %q", c.reason, got, c.want)
		}
	}
}

func FuzzCauseOf(f *testing.F) {
	f.Add("https://h/: responded with 400 (Bad Request): order 17 unknown; x")
	f.Add("a-1.b:c@d%e+ \xff 1s 12345")
	f.Fuzz(func(t *testing.T, reason string) {
		cause := stats.CauseOf(reason)
		if n := len([]rune(cause)); n > 301 {
			t.Fatalf("the cause has %d characters", n)
		}
		if strings.Contains(reason, "http") || mayBeCut(reason) {
			return
		}
		if again := stats.CauseOf(cause); again != cause {
			t.Fatalf("the cause of %q is %q", cause, again)
		}
	})
}

func mayBeCut(reason string) bool { return len(reason) > 300 }

// failedAttempt returns a failed attempt at call n, with an error response.
func failedAttempt(n int, response string) tracking.Attempt {
	return tracking.Attempt{
		CallID: fmt.Sprint("m", n), Source: "web", Destination: "crm",
		Call: &tracking.Call{Body: []byte(`{"userId":"u","context":{"library":{"name":"analytics-go","version":"1.2"}}}`)},
		Attempt: webhook.Attempt{Time: time.Now(), Status: 400, Verdict: webhook.Permanent, Reason: webhook.ReasonStatus,
			Error: "responded with 400 (Bad Request)", ResponseBody: []byte(response)},
	}
}

// failedCall returns the permanent failure of call n after failedAttempt.
func failedCall(n int, response string) tracking.Ended {
	return tracking.Ended{CallID: fmt.Sprint("m", n), Source: "web", Destination: "crm", At: time.Now(), Attempt: 1,
		Outcome: tracking.Outcome{State: tracking.StateFailed, Reason: "https://h/: responded with 400 (Bad Request): " + response}}
}

func TestFailuresAreGroupedByCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := stats.NewCauses()
		began := time.Now()
		for n := range 10 {
			response := fmt.Sprintf("order %d unknown", n)
			c.Observe(failedAttempt(n, response))
			c.Observe(failedCall(n, response))
			time.Sleep(time.Second)
		}
		ok := failedAttempt(0, "")
		ok.Verdict = webhook.Success
		c.Observe(ok)
		c.Observe(failedAttempt(100, "no such tenant"))
		report := c.Report()
		require.Len(t, report.Failed, 2)
		g := report.Failed[0]
		assert.Equal(t, "responded with 400 (Bad Request): order … unknown", g.Cause)
		assert.Equal(t, stats.Counts{Hour: 10, Day: 10, Total: 10}, g.Attempts)
		assert.Equal(t, g.Attempts, g.Calls)
		assert.Equal(t, "order 9 unknown", g.Sample.Answer)
		assert.Equal(t, 400, g.Sample.Status)
		assert.True(t, g.First.Equal(began) && g.Last.Equal(began.Add(9*time.Second)), "from %v to %v", g.First, g.Last)
		require.Len(t, g.Newest, 5)
		assert.Equal(t, "m9", g.Newest[0].ID)
		require.Len(t, g.Senders, 1)
		assert.Equal(t, "analytics-go 1.2", g.Senders[0].Library)
		assert.EqualValues(t, 10, g.Senders[0].Count)
		assert.True(t, report.Since.Equal(began))

		time.Sleep(61 * time.Minute)
		assert.Equal(t, stats.Counts{Hour: 0, Day: 10, Total: 10}, c.Report().Failed[0].Calls)
		time.Sleep(24 * time.Hour)
		assert.Equal(t, stats.Counts{Total: 10}, c.Report().Failed[1].Calls)
		c.Delete("crm")
		assert.Empty(t, c.Report().Failed)
	})
}

func TestRejectionsAndRefusalsListSenders(t *testing.T) {
	c := stats.NewCauses()
	from := tracking.Sender{Address: "203.0.113.7", UserAgent: "curl/8"}
	for range 3 {
		c.Observe(tracking.Rejection{Code: tracking.CodeNoUser, Source: "web", Message: "a call needs a userId", ReceivedAt: time.Now(), Sender: from})
	}
	c.Observe(event.Refusal{Code: tracking.CodeInvalidJSON, Source: "web", Message: "byte 17: bad", Status: 400, At: time.Now(), Count: 1, Sender: from})
	c.Observe(event.Refusal{Code: tracking.CodeInvalidJSON, Source: "web", Message: "byte 18: bad", Status: 400, At: time.Now(), Count: 1, Sender: from})
	refused := c.Report().Refused
	require.Len(t, refused, 2)
	assert.Equal(t, stats.Rejected, refused[0].Kind)
	assert.EqualValues(t, 3, refused[0].Calls.Hour)
	assert.Equal(t, from, refused[0].Senders[0].Sender)
	assert.EqualValues(t, 3, refused[0].Senders[0].Count)
	assert.Equal(t, stats.Refused, refused[1].Kind)
	assert.EqualValues(t, 2, refused[1].Calls.Hour)
	assert.Equal(t, "byte 18: bad", refused[1].Sample.Message)
}

func TestUnknownWriteKeysShareAGroupPerCode(t *testing.T) {
	c := stats.NewCauses()
	for n := range 1000 {
		c.Observe(event.Refusal{Code: tracking.CodeNotFound, Message: fmt.Sprintf("there is no \"/x%s\" here", strings.Repeat("a", n%50)), At: time.Now(), Count: 1})
	}
	refused := c.Report().Refused
	require.Len(t, refused, 1)
	assert.EqualValues(t, 1000, refused[0].Calls.Total)
}

func TestFrequentSendersAreRetained(t *testing.T) {
	c := stats.NewCauses()
	reject := func(address string, n int) {
		for range n {
			c.Observe(tracking.Rejection{Code: tracking.CodeNoUser, Source: "web", ReceivedAt: time.Now(), Sender: tracking.Sender{Address: address}})
		}
	}
	reject("frequent", 100)
	for n := range 1000 {
		reject(fmt.Sprint("rare", n), 1)
	}
	reject("frequent", 1)
	g := c.Report().Refused[0]
	require.Len(t, g.Senders, 8)
	assert.Equal(t, "frequent", g.Senders[0].Address)
	assert.EqualValues(t, 101, g.Senders[0].Count)
	sum := g.OtherSenders
	for _, s := range g.Senders {
		sum += s.Count
	}
	assert.EqualValues(t, 1101, sum, "every problem is counted once")
}

func TestMemoryOfCausesIsBounded(t *testing.T) {
	before := heap()
	c := stats.NewCauses()
	big := strings.Repeat("x", 4096)
	word := func(n int) string { // returns words without digits
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(n))
	}
	const many = 1500
	for n := range many {
		c.Observe(failedAttempt(n, word(n)+" "+big))
		for s := range 10 {
			c.Observe(tracking.Rejection{Code: tracking.CodeNotAsPlanned, Source: "web", Message: word(n) + big, ReceivedAt: time.Now(),
				Sender: tracking.Sender{UserAgent: fmt.Sprint(strings.Repeat("a", 190), n, s)}})
		}
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("%d causes take %d bytes, want 4 MiB at most", many, grown)
	}
	report := c.Report()
	total := report.OtherFailed.Calls
	for _, g := range report.Failed {
		total += g.Attempts.Total
	}
	assert.EqualValues(t, many, total)
	assert.Len(t, report.Failed, 200)
	assert.Equal(t, many-200, report.OtherFailed.Groups)
	total = report.OtherRefused.Calls
	for _, g := range report.Refused {
		total += g.Calls.Total
	}
	assert.EqualValues(t, 10*many, total)
	runtime.KeepAlive(c)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkObserveCauses(b *testing.B) {
	ok := failedAttempt(1, "")
	ok.Verdict = webhook.Success
	bad := failedAttempt(1, `{"error":"order 17 unknown"}`)
	for _, bench := range []struct {
		name string
		e    event.Event
	}{{"delivered", ok}, {"failed", bad}} {
		b.Run(bench.name, func(b *testing.B) {
			c := stats.NewCauses()
			for b.Loop() {
				c.Observe(bench.e)
			}
		})
	}
}
