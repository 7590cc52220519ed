package analytics

import (
	"testing"
	"time"

	"github.com/segmentio/backo-go"
	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for status := 0; status <= 999; status++ {
		if status > 0 && status < 200 {
			continue // net/http does not hand these on
		}
		want := refused
		switch {
		case status >= 200 && status <= 299:
			want = delivered
		case status == 0 || status == 408 || status == 410 || status == 429 || status == 460:
			want = retry
		case status == 501 || status == 505 || status == 511:
			want = refused
		case status >= 500:
			want = retry
		case status == 400 || status == 413:
			want = split
		}
		require.Equal(t, want, classify(status), status)
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"":                                 0,
		"0":                                0,
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
		"Thu, 29 Feb 2024 11:00:00 GMT":    0,
		"2024-02-29T12:00:30Z":             0,
	} {
		require.Equal(t, want, parseRetryAfter(in, now), "%q", in)
	}
}

func FuzzRetryAfter(f *testing.F) {
	now := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	for _, s := range []string{"1", "-1", "Thu, 29 Feb 2024 12:00:30 GMT", "1e9", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := parseRetryAfter(s, now)
		require.True(t, d >= 0 && d <= maxRetryAfter, "%q: %v", s, d)
	})
}

func TestBackoff(t *testing.T) {
	b := backo.DefaultBacko()
	var least time.Duration
	for failed := 1; failed < defaultMaxAttempts; failed++ {
		full := b.Duration(failed - 1)
		least += full * 3 / 4
		seen := map[time.Duration]bool{}
		for range 100 {
			d := backoff(b, failed)
			require.True(t, d <= full && d >= full*3/4, "%v of %v", d, full)
			seen[d] = true
		}
		require.Greater(t, len(seen), 50, "there is no jitter in attempt %d", failed)
	}
	require.Greater(t, least, 20*time.Second, "a collector that restarts would cost calls")
	require.Zero(t, backoff(backo.NewBacko(0, 2, 0, 0), 1))
	require.LessOrEqual(t, backoff(b, 1_000_000), 10*time.Second)
	require.GreaterOrEqual(t, backoff(backo.NewBacko(time.Second, 2, 5, time.Minute), 3), time.Duration(0))
}
