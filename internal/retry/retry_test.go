package retry

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/backo-go"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	p := &Policy{}
	for status := 0; status <= 999; status++ {
		if status > 0 && status < 200 {
			continue // net/http does not return these statuses
		}
		want := Refused
		switch {
		case status >= 200 && status <= 299:
			want = Delivered
		case status == 0 || status == 408 || status == 410 || status == 429 || status == 460:
			want = Retry
		case status == 501 || status == 505 || status == 511:
			want = Refused
		case status >= 500:
			want = Retry
		case status == 400 || status == 413:
			want = Split
		}
		require.Equal(t, want, p.Classify(status), status)
	}
}

var noon = time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                time.Second,
		"00":                               time.Second,
		"1":                                time.Second,
		" 120 ":                            2 * time.Minute,
		"300":                              300 * time.Second,
		"301":                              300 * time.Second,
		"99999999999999999999999":          300 * time.Second,
		"-5":                               0,
		"1.5":                              0,
		"soon":                             0,
		"١":                                0,
		"Thu, 29 Feb 2024 12:00:30 GMT":    30 * time.Second,
		"Thursday, 29-Feb-24 12:00:30 GMT": 30 * time.Second,
		"Thu Feb 29 12:00:30 2024":         30 * time.Second,
		"Thu, 29 Feb 2024 13:00:00 GMT":    300 * time.Second,
		"Thu, 29 Feb 2024 12:00:00 GMT":    0,
		"Thu, 29 Feb 2024 11:00:00 GMT":    0,
		"2024-02-29T12:00:30Z":             0,
	} {
		p := &Policy{}
		require.Equal(t, want, p.RetryAfter(429, http.Header{"Retry-After": {in}}, noon), "%q", in)
	}
}

func TestRetryAfterCountsWithEachStatusThatIsTriedAgain(t *testing.T) {
	p := &Policy{}
	for _, status := range []int{408, 410, 429, 460, 500, 503, 529} {
		require.Equal(t, 7*time.Second, p.RetryAfter(status, http.Header{"Retry-After": {"7"}}, noon), status)
	}
	for _, status := range []int{200, 302, 400, 401, 404, 413, 501, 505, 511} {
		require.Zero(t, p.RetryAfter(status, http.Header{"Retry-After": {"7"}}, noon), status)
	}
}

func TestRateLimitReset(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	for in, want := range map[string]time.Duration{
		"":    0,
		"0":   time.Second,
		"30":  30 * time.Second,
		"301": 300 * time.Second,
		strconv.FormatInt(at(40*time.Second).Unix(), 10):             40 * time.Second,
		strconv.FormatInt(at(250*time.Millisecond).UnixMilli(), 10):  time.Second,
		strconv.FormatInt(at(2500*time.Millisecond).UnixMilli(), 10): 2500 * time.Millisecond,
		strconv.FormatInt(at(time.Hour).UnixMilli(), 10):             300 * time.Second,
		strconv.FormatInt(at(-time.Hour).Unix(), 10):                 0,
		strconv.FormatInt(at(-time.Hour).UnixMilli(), 10):            0,
		"99999999999999999999":                                       300 * time.Second,
		"-1":                                                         0,
		"soon":                                                       0,
	} {
		p := &Policy{}
		header := http.Header{"X-Ratelimit-Reset": {in}}
		require.Equal(t, want, p.RetryAfter(429, header, noon), "%q", in)
		require.Zero(t, p.RetryAfter(503, header, noon), "only 429 is a rate limit")
		header.Set("Retry-After", "9")
		require.Equal(t, 9*time.Second, p.RetryAfter(429, header, noon), "Retry-After counts more")
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"1", "-1", "Thu, 29 Feb 2024 12:00:30 GMT", "1e9", "\x00", "1709208000", "1709208000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := &Policy{}
		for _, name := range []string{headerRetryAfter, headerReset} {
			header := http.Header{}
			header.Set(name, s)
			d := p.RetryAfter(429, header, noon)
			require.True(t, d == 0 || d >= minRetryAfter && d <= defaultMaxRetryAfter, "%s %q: %v", name, s, d)
		}
	})
}

func TestBackoff(t *testing.T) {
	p := &Policy{Backoff: DefaultBackoff()}
	var least time.Duration
	for failed, full := range []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second,
		time.Minute, time.Minute, time.Minute,
	} {
		least += full * 3 / 4
		seen := map[time.Duration]bool{}
		for range 100 {
			d := p.wait(failed)
			require.True(t, d <= full && d >= full*3/4, "%v of %v", d, full)
			seen[d] = true
		}
		require.Greater(t, len(seen), 50, "there is no jitter in attempt %d", failed)
	}
	require.Greater(t, least, 2*time.Minute)
	require.LessOrEqual(t, p.wait(1_000_000), time.Minute)
	require.Zero(t, (&Policy{Backoff: backo.NewBacko(0, 2, 0, 0).Duration}).wait(1))
	odd := &Policy{Backoff: backo.NewBacko(time.Second, 2, 5, time.Minute).Duration}
	require.GreaterOrEqual(t, odd.wait(3), time.Duration(0))
	exact := &Policy{Backoff: func(retries int) time.Duration { return time.Duration(retries-1) * time.Second }, Exact: true}
	for retries, want := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
		require.Equal(t, want, exact.wait(retries))
	}
}

// With the pauses of version 2, ten attempts take longer than a restart of the collector.
func TestVersion2BackoffCoversARestart(t *testing.T) {
	p := &Policy{Backoff: backo.DefaultBacko().Duration}
	var least time.Duration
	for failed := 1; failed < DefaultAttempts; failed++ {
		least += min(p.Backoff(failed-1), 10*time.Second) * 3 / 4
	}
	require.Greater(t, least, 20*time.Second)
}

// event is a failed attempt that follows a pause.
type event struct {
	after      time.Duration
	retryAfter time.Duration
	accepted   int64 // number of calls accepted before the attempt
	want       Step
}

func TestNext(t *testing.T) {
	second := backo.NewBacko(time.Second, 1, 0, time.Second).Duration // with jitter, each pause takes 0.75 to 1 s
	base := Policy{Attempts: 3, Backoff: second, MaxBackoff: time.Hour, MaxRateLimit: time.Hour}
	persist := base
	persist.Persist = true
	few := base
	few.maxRateLimits = 2
	none := base
	none.Attempts = 1
	limit := func(after, retryAfter time.Duration, accepted int64, want Step) event {
		return event{after, retryAfter, accepted, want}
	}
	fail := func(after time.Duration, accepted int64, want Step) event { return event{after, 0, accepted, want} }
	for _, tt := range []struct {
		name   string
		policy Policy
		events []event
	}{
		{"attempts are used up", base, []event{fail(0, 0, Wait), fail(0, 0, Wait), fail(0, 0, Exhausted)}},
		{"one attempt", none, []event{fail(0, 0, Exhausted)}},
		{"a required pause does not count", base, []event{
			fail(0, 0, Wait), limit(0, time.Second, 0, Wait), fail(0, 0, Wait), limit(0, time.Second, 0, Wait), limit(0, time.Second, 0, Wait), fail(0, 0, Exhausted)}},
		{"a required pause is not an attempt", none, []event{limit(0, time.Second, 0, Wait), fail(0, 0, Exhausted)}},
		{"no other batch is accepted", persist, []event{fail(0, 7, Wait), fail(0, 7, Wait), fail(0, 7, StartOver), fail(0, 7, Wait), fail(0, 7, Wait), fail(0, 7, StartOver)}},
		{"another batch is accepted", persist, []event{fail(0, 7, Wait), fail(0, 7, Wait), fail(0, 8, Exhausted)}},
		{"another batch was accepted in an earlier round", persist, []event{
			fail(0, 7, Wait), fail(0, 7, Wait), fail(0, 7, StartOver), fail(0, 9, Wait), fail(0, 9, Wait), fail(0, 9, StartOver)}},
		{"time is over", persist, []event{fail(0, 0, Wait), fail(time.Hour-2*time.Second, 0, Wait), fail(2*time.Second, 0, Expired)}},
		{"the next attempt would be too late", persist, []event{fail(0, 0, Wait), fail(time.Hour-time.Millisecond, 0, Expired)}},
		{"time begins with the first failure that counts", persist, []event{
			limit(0, time.Second, 0, Wait), fail(2*time.Hour, 1, Wait), fail(time.Hour-2*time.Second, 1, Wait)}},
		{"required pauses take too long", base, []event{
			limit(0, 5*time.Minute, 0, Wait), limit(55*time.Minute, 5*time.Minute, 0, Wait), limit(time.Second, 5*time.Minute, 0, Expired)}},
		{"required pauses end in time", base, []event{limit(0, time.Minute, 0, Wait), limit(59*time.Minute, time.Minute, 0, Wait)}},
		{"required pauses, but other batches are accepted", base, []event{
			limit(0, time.Minute, 0, Wait), limit(59*time.Minute, time.Minute, 1, Wait), limit(59*time.Minute, time.Minute, 1, Wait), limit(time.Minute, time.Minute, 1, Expired)}},
		{"both times are counted apart", base, []event{
			limit(0, time.Minute, 0, Wait), fail(40*time.Minute, 0, Wait), fail(40*time.Minute, 0, Wait), limit(time.Second, time.Minute, 0, Expired)}},
		{"too many required pauses", few, []event{limit(0, time.Second, 0, Wait), limit(0, time.Second, 1, Expired)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var tries Tries
			now := noon
			for i, e := range tt.events {
				now = now.Add(e.after)
				step, wait := tt.policy.Next(&tries, tt.policy.Pause(&tries, e.retryAfter), e.accepted, now)
				require.Equal(t, e.want, step, "event %d", i)
				switch {
				case step == Exhausted || step == Expired:
					require.Zero(t, wait)
				case e.retryAfter > 0:
					require.Equal(t, e.retryAfter, wait)
				default:
					require.True(t, wait >= 750*time.Millisecond && wait <= time.Second, wait)
				}
			}
		})
	}
}

// A batch that always fails is retried for 12 hours. The last pauses take 60 s.
func TestTwelveHours(t *testing.T) {
	p := &Policy{Attempts: 1 << 20, Backoff: DefaultBackoff(), MaxBackoff: DefaultMaxBackoff, MaxRateLimit: DefaultMaxRateLimit}
	var tries Tries
	now, last := noon, noon
	for {
		step, wait := p.Next(&tries, p.Pause(&tries, 0), 0, now)
		if step == Expired {
			break
		}
		require.Equal(t, Wait, step)
		last, now = now, now.Add(wait)
		tries.Requests++
	}
	require.Less(t, 12*time.Hour-now.Sub(noon), time.Minute)
	require.GreaterOrEqual(t, now.Sub(last), 45*time.Second)
	require.InDelta(t, 12*60/0.875, tries.Requests, 30)
}

func TestFromSettings(t *testing.T) {
	own := Policy{Attempts: 10, Persist: true, Backoff: backo.DefaultBacko().Duration, Exact: true, MaxBackoff: time.Hour, MaxRateLimit: 2 * time.Hour}
	settings := func(httpConfig string) []byte {
		return []byte(`{"integrations":{"Segment.io":{"apiKey":"k","httpConfig":` + httpConfig + `},"Other":7},"plan":{}}`)
	}
	for name, tt := range map[string]struct {
		settings []byte
		change   func(p *Policy)
	}{
		"none":                     {[]byte(`{}`), func(*Policy) {}},
		"no httpConfig":            {[]byte(`{"integrations":{"Segment.io":{"apiKey":"k"}}}`), func(*Policy) {}},
		"null":                     {settings(`null`), func(*Policy) {}},
		"empty":                    {settings(`{"rateLimitConfig":{}}`), func(*Policy) {}},
		"unknown field":            {settings(`{"rateLimitConfig":{"later":[1]},"later":1}`), func(*Policy) {}},
		"rate limit":               {settings(`{"rateLimitConfig":{"maxRetryCount":2,"maxRetryInterval":60,"maxRateLimitDuration":600}}`), func(p *Policy) { p.maxRateLimits, p.maxRetryAfter, p.MaxRateLimit = 3, time.Minute, 10*time.Minute }},
		"rate limit, disabled":     {settings(`{"rateLimitConfig":{"enabled":false,"maxRetryCount":2,"maxRetryInterval":60}}`), func(*Policy) {}},
		"rate limit, enabled":      {settings(`{"rateLimitConfig":{"enabled":true,"maxRetryInterval":60}}`), func(p *Policy) { p.maxRetryAfter = time.Minute }},
		"rate limit, below bounds": {settings(`{"rateLimitConfig":{"maxRetryCount":-1,"maxRetryInterval":0,"maxRateLimitDuration":-9}}`), func(p *Policy) { p.maxRateLimits, p.maxRetryAfter, p.MaxRateLimit = 1, time.Second, 10*time.Second }},
		"rate limit, above bounds": {settings(`{"rateLimitConfig":{"maxRetryCount":1e300,"maxRetryInterval":1e300,"maxRateLimitDuration":1e300}}`), func(p *Policy) { p.maxRateLimits, p.maxRetryAfter, p.MaxRateLimit = 101, day, day }},
		"attempts":                 {settings(`{"backoffConfig":{"maxRetryCount":3}}`), func(p *Policy) { p.Attempts, p.Persist = 4, false }},
		"no retries":               {settings(`{"backoffConfig":{"maxRetryCount":0}}`), func(p *Policy) { p.Attempts, p.Persist = 1, false }},
		"backoff": {settings(`{"backoffConfig":{"baseBackoffInterval":0.25,"maxBackoffInterval":3}}`), func(p *Policy) {
			p.Backoff, p.Exact = backo.NewBacko(250*time.Millisecond, 2, 0, 3*time.Second).Duration, false
		}},
		"backoff, base alone": {settings(`{"backoffConfig":{"baseBackoffInterval":2}}`), func(p *Policy) { p.Backoff, p.Exact = backo.NewBacko(2*time.Second, 2, 0, time.Minute).Duration, false }},
		"backoff, disabled":   {settings(`{"backoffConfig":{"enabled":false,"maxRetryCount":3,"statusCodeOverrides":{"404":"retry"}}}`), func(*Policy) {}},
		"time":                {settings(`{"backoffConfig":{"maxTotalBackoffDuration":120}}`), func(p *Policy) { p.MaxBackoff = 2 * time.Minute }},
		"time, below bounds":  {settings(`{"backoffConfig":{"maxTotalBackoffDuration":1}}`), func(p *Policy) { p.MaxBackoff = time.Minute }},
		"jitter":              {settings(`{"backoffConfig":{"jitterPercent":10}}`), func(p *Policy) { p.jitter = 0.1 }},
		"classes":             {settings(`{"backoffConfig":{"default4xxBehavior":"retry","default5xxBehavior":"drop"}}`), func(p *Policy) { p.others = [2]Verdict{Retry, Refused} }},
		"classes, not known":  {settings(`{"backoffConfig":{"default4xxBehavior":"ask"}}`), func(*Policy) {}},
		"statuses": {settings(`{"backoffConfig":{"statusCodeOverrides":{"404":"retry","503":"drop","413":"drop","400":"retry","200":"retry","x":"drop","418":"ask"}}}`), func(p *Policy) {
			p.statuses = map[int]Verdict{404: Retry, 503: Refused, 413: Split, 400: Retry}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := own
			tt.change(&want)
			got, err := own.FromSettings(tt.settings)
			require.NoError(t, err)
			if len(got.statuses) == 0 {
				got.statuses = nil
			}
			requirePolicy(t, want, got)
		})
	}
	for _, bad := range []string{``, `{`, `[]`, `{"integrations":[]}`, `{"integrations":{"Segment.io":[]}}`, string(settings(`[]`)), string(settings(`{"backoffConfig":{"maxRetryCount":"3"}}`))} {
		got, err := own.FromSettings([]byte(bad))
		require.Error(t, err, bad)
		requirePolicy(t, own, got)
	}
}

// requirePolicy compares two policies. It compares functions by their results.
func requirePolicy(t *testing.T, want, got Policy) {
	for retries := range 20 {
		require.Equal(t, want.Backoff(retries), got.Backoff(retries))
	}
	want.Backoff, got.Backoff = nil, nil
	require.Equal(t, want, got)
}

func TestOverridesCountMoreThanClasses(t *testing.T) {
	p, err := Policy{}.FromSettings([]byte(`{"integrations":{"Segment.io":{"httpConfig":{"backoffConfig":{
		"default4xxBehavior":"retry","default5xxBehavior":"drop","statusCodeOverrides":{"404":"drop","500":"retry","429":"drop"}}}}}}`))
	require.NoError(t, err)
	for status, want := range map[int]Verdict{
		200: Delivered, 302: Refused, 0: Retry,
		400: Retry, 404: Refused, 408: Retry, 413: Retry, 418: Retry, 429: Refused,
		500: Retry, 501: Refused, 502: Refused, 503: Refused,
	} {
		require.Equal(t, want, p.Classify(status), status)
	}
	require.Zero(t, p.RetryAfter(429, http.Header{"Retry-After": {"5"}}, noon), "a batch that is dropped holds nothing")
}

func TestSettingsBoundRetryAfter(t *testing.T) {
	p, err := Policy{}.FromSettings([]byte(`{"integrations":{"Segment.io":{"httpConfig":{"rateLimitConfig":{"maxRetryInterval":2}}}}}`))
	require.NoError(t, err)
	require.Equal(t, 2*time.Second, p.RetryAfter(429, http.Header{"Retry-After": {"60"}}, noon))
}

func TestJitterOfSettings(t *testing.T) {
	p := &Policy{Backoff: DefaultBackoff(), jitter: 0.1}
	var waits []time.Duration
	for range 1000 {
		waits = append(waits, p.wait(1))
	}
	least, most := slices.Min(waits), slices.Max(waits)
	require.True(t, least >= 900*time.Millisecond && most <= 1100*time.Millisecond, "%v to %v", least, most)
	require.Less(t, least, 950*time.Millisecond)
	require.Greater(t, most, 1050*time.Millisecond)
}

func FuzzFromSettings(f *testing.F) {
	f.Add([]byte(`{"integrations":{"Segment.io":{"httpConfig":{"backoffConfig":{"maxRetryCount":3,"baseBackoffInterval":0.5,"statusCodeOverrides":{"404":"retry"}}}}}}`))
	f.Add([]byte(`{"integrations":{"Segment.io":{"httpConfig":{"rateLimitConfig":{"maxRetryCount":1e99,"maxRetryInterval":-1}}}}}`))
	f.Fuzz(func(t *testing.T, settings []byte) {
		own := Policy{Attempts: 10, Backoff: DefaultBackoff(), MaxBackoff: time.Hour, MaxRateLimit: time.Hour}
		p, err := own.FromSettings(settings)
		if err != nil {
			return
		}
		require.True(t, p.Attempts >= 1 && p.Attempts <= 101)
		require.True(t, p.MaxBackoff >= time.Minute && p.MaxRateLimit >= 10*time.Second)
		require.Equal(t, Delivered, p.Classify(200))
		require.GreaterOrEqual(t, p.wait(1), time.Duration(0))
	})
}

// A program may use the longest possible duration as a pause to prevent retries. Jitter does not make
// this pause negative.
func TestLongestBackoffIsNeverNegative(t *testing.T) {
	p := &Policy{Backoff: func(int) time.Duration { return math.MaxInt64 }, jitter: 1}
	for range 1000 {
		require.Positive(t, p.wait(1))
	}
}
