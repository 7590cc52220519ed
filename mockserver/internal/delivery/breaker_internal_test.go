package delivery

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

var outcomeOf = map[byte]outcome{'.': outcomeUnknown, 'a': outcomeWorking, 'f': outcomeFailed, 'r': outcomeRetryFailed, 'u': outcomeUnreachable, 'U': outcomeUnreachable, 'g': outcomeFailed, 'v': outcomeUnreachable, 'V': outcomeUnreachable}

// TestBreaker records sequences of outcomes. Lower-case outcomes belong to probes while the
// destination is unreachable. The outcomes g, v and V are shared.
func TestBreaker(t *testing.T) {
	ten := func(letter string) string { return strings.Repeat(letter, 10) }
	for name, test := range map[string]struct {
		outcomes string
		want     breakerState
		wait     time.Duration // delay until the next call may begin
	}{
		"nothing yet":                                   {"", working, 0},
		"nine fail":                                     {strings.Repeat("f", 9), working, 0},
		"ten fail":                                      {ten("f"), failing, 0},
		"ten retries fail":                              {ten("r"), working, 0},
		"a thousand retries fail":                       {strings.Repeat("r", 1000), working, 0},
		"ten fail, with failed retries between":         {strings.Repeat("frr", 10), failing, 0},
		"unknown results between":                       {strings.Repeat("f.", 10), failing, 0},
		"one answer between":                            {"fffffaffffff", working, 0},
		"failing, and one is accepted":                  {ten("f") + "a", working, 0},
		"failing, and one fails again":                  {ten("f") + "r", failing, 0},
		"nine do not connect":                           {strings.Repeat("u", 9), working, 0},
		"ten do not connect":                            {ten("u"), unreachable, probeEvery},
		"one of ten connects":                           {"uuuuuruuuuu", working, 0},
		"half fail, half do not connect":                {strings.Repeat("fu", 10), failing, 0},
		"failing, then no connection":                   {ten("f") + ten("u"), unreachable, probeEvery},
		"unreachable, and the probe is accepted":        {ten("u") + "a", working, 0},
		"unreachable, and the probe fails":              {ten("u") + "f", working, 0},
		"unreachable, and the probe fails again":        {ten("u") + "r", working, 0},
		"failing before, and the probe fails":           {ten("f") + ten("u") + "f", failing, 0},
		"unreachable, and the probe is canceled":        {ten("u") + ".", unreachable, probeEvery},
		"unreachable, and one that was under way as it": {ten("u") + "U", unreachable, probeEvery},
		"after one probe":                               {ten("u") + "u", unreachable, probeEvery},
		"after many probes":                             {ten("u") + ten("u"), unreachable, probeEvery},
		"one batch of ten fails":                        {"f" + strings.Repeat("g", 9), working, 0},
		"ten batches fail":                              {strings.Repeat("gfgg", 10), failing, 0},
		"one batch does not connect":                    {"u" + strings.Repeat("v", 9), working, 0},
		"ten batches do not connect":                    {strings.Repeat("uv", 10), unreachable, probeEvery},
		"nine do not connect, one of a batch connects":  {strings.Repeat("u", 9) + "gu", working, 0},
		"unreachable, and a batch ends late":            {ten("u") + "VV", unreachable, probeEvery},
		"the probe joined a batch that began earlier":   {ten("u") + "-v", unreachable, probeEvery},
		"unreachable a second time":                     {ten("u") + "uuua" + ten("u"), unreachable, probeEvery},
	} {
		t.Run(name, func(t *testing.T) {
			var b breaker
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, letter := range []byte(test.outcomes) {
				if letter == '-' {
					now = now.Add(time.Minute)
					continue
				}
				probe := b.state() == unreachable && letter != 'U' && letter != 'V'
				b.record(outcomeOf[letter], probe, strings.IndexByte("gvV", letter) >= 0, now)
			}
			assert.Equal(t, test.want, b.state())
			if next := b.next(now); test.wait == 0 {
				assert.Zero(t, next)
			} else {
				assert.Equal(t, test.wait, next.Sub(now))
			}
		})
	}
}

// TestBreakerPace counts the calls that begin in a second if all fail.
func TestBreakerPace(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var b breaker
	for range downAfter {
		b.record(outcomeFailed, false, false, now)
	}
	begin, passed := now, downAfter
	after := func(d time.Duration) int {
		for now.Before(begin.Add(d)) {
			if at := b.next(now); !at.IsZero() {
				now = at
				continue
			}
			b.begin(now)
			b.record(outcomeFailed, false, false, now)
			passed++
		}
		return passed
	}
	assert.InDelta(t, failingRate, after(time.Second), 20)
	assert.InDelta(t, 10*failingRate, after(10*time.Second), 30)
	assert.Greater(t, after(time.Minute), 30_000)
	assert.Less(t, after(4*time.Hour), 150_000, "the calls in memory are bounded")
	before := passed
	assert.InDelta(t, 60, after(4*time.Hour+time.Minute)-before, 60, "one call is attempted")
	b.record(outcomeWorking, false, false, now)
	assert.Zero(t, b.next(now))
}

// TestBreakerPaceCountsCalls checks that each failed call of a batch slows the destination down, because
// each uses memory.
func TestBreakerPaceCountsCalls(t *testing.T) {
	var b breaker
	for i := range failingCalls + 1 {
		b.record(outcomeFailed, false, i%1000 > 0, time.Time{})
	}
	assert.Equal(t, 21, b.failed)
	step, calls := b.pace()
	assert.Equal(t, failingRate/2*step, time.Duration(calls)*time.Second)
}

// TestBreakerInvariants records random outcomes. It checks that a response allows all calls to
// begin, that unknown outcomes change nothing, and that the delay is bounded.
func TestBreakerInvariants(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 5))
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var b breaker
		usual := outcome(random.IntN(5))
		for range 1000 {
			now = now.Add(time.Duration(random.IntN(1000)) * time.Millisecond)
			o, before, probe := usual, b, false
			if random.IntN(20) == 0 {
				o = outcome(random.IntN(5))
			}
			if at := b.next(now); at.IsZero() {
				probe = b.state() == unreachable
				b.begin(now)
				before = b
			} else {
				assert.LessOrEqual(t, at.Sub(now), probeEvery)
			}
			shared := random.IntN(10) == 0
			b.record(o, probe, shared, now)
			switch {
			case o == outcomeUnknown, o == outcomeUnreachable && !probe && (shared || before.state() == unreachable):
				assert.Equal(t, before, b)
			case o == outcomeWorking:
				assert.Equal(t, breaker{}, b)
			case o == outcomeRetryFailed:
				assert.Equal(t, before.failed, b.failed)
				assert.NotEqual(t, unreachable, b.state())
			case o == outcomeFailed:
				assert.Equal(t, before.failedCalls+1, b.failedCalls)
				assert.Equal(t, shared, before.failed == b.failed)
				assert.NotEqual(t, unreachable, b.state())
			}
			if t.Failed() {
				t.Fatal("seed ", seed)
			}
		}
	}
}
