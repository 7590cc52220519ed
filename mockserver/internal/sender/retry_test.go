package sender

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func TestVerdictOfStatus(t *testing.T) {
	want := map[int]webhook.Verdict{408: webhook.Temporary, 425: webhook.Temporary, 429: webhook.Temporary}
	for status := 100; status <= 999; status++ {
		expected, special := want[status]
		switch {
		case special:
		case status/100 == 2:
			expected = webhook.Success
		case status/100 == 5:
			expected = webhook.Temporary
		default:
			expected = webhook.Permanent
		}
		if got := verdictOfStatus(status); got != expected {
			t.Errorf("%d is %v, want %v", status, got, expected)
		}
	}
}

func TestAttemptsIn(t *testing.T) {
	made := time.Duration(0) // when the attempt is made, after the maximum delays
	for attempt := 1; attempt <= 9; attempt++ {
		if got := AttemptsIn(made); got != attempt {
			t.Errorf("%d attempts in %v, want %d", got, made, attempt)
		}
		made += firstBackoff << (attempt - 1)
	}
	if got := AttemptsIn(-time.Hour); got != 1 {
		t.Errorf("%d attempts in a negative time, want 1", got)
	}
}

func TestBackoff(t *testing.T) {
	const most = 1 - 1e-9
	ceilings := []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600}
	for i, ceiling := range ceilings {
		ceiling *= time.Second
		attempt := i + 1
		if got := backoff(attempt, most); got > ceiling || got < ceiling-time.Microsecond {
			t.Errorf("attempt %d: at most %v, want %v", attempt, got, ceiling)
		}
		if got := backoff(attempt, 0.5); got != ceiling/2 {
			t.Errorf("attempt %d: middle %v, want %v", attempt, got, ceiling/2)
		}
		if got := backoff(attempt, 0); got != 0 {
			t.Errorf("attempt %d: at least %v, want 0", attempt, got)
		}
	}
	for _, odd := range []struct {
		attempt int
		random  float64
		want    time.Duration
	}{
		{0, 1, time.Second}, {-5, 1, time.Second}, {math.MinInt, 1, time.Second},
		{math.MaxInt, 1, 10 * time.Minute}, {64, 1, 10 * time.Minute},
		{1, 7, time.Second}, {1, math.Inf(1), time.Second}, {1, -1, 0}, {1, math.NaN(), 0},
	} {
		if got := backoff(odd.attempt, odd.random); got != odd.want {
			t.Errorf("backoff(%d, %v) = %v, want %v", odd.attempt, odd.random, got, odd.want)
		}
	}
}

func TestNext(t *testing.T) {
	accepted := time.Date(2024, 5, 17, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name       string
		after      time.Duration // time since the call was accepted
		attempt    int
		retryAfter time.Duration
		random     float64
		want       time.Duration // time since the call was accepted; -1 if the window is over
	}{
		{"first", 0, 1, 0, 0.5, 500 * time.Millisecond},
		{"later", time.Hour, 20, 0, 0.5, time.Hour + 5*time.Minute},
		{"Retry-After is longer", time.Minute, 1, time.Hour, 0.5, time.Minute + time.Hour},
		{"backoff is longer", time.Minute, 20, time.Second, 0.5, 6 * time.Minute},
		{"the last comes at the end", webhook.Window - time.Minute, 20, 0, 0.5, webhook.Window},
		{"Retry-After past the end", time.Hour, 1, 5 * time.Hour, 0, webhook.Window},
		{"just before the end", webhook.Window - 1, 20, 0, 1, webhook.Window},
		{"at the end", webhook.Window, 1, 0, 0, -1},
		{"past the end", webhook.Window + time.Hour, 1, time.Second, 0, -1},
	} {
		next, ok := Next(accepted.Add(tt.after), accepted.Add(webhook.Window), tt.attempt, tt.retryAfter, tt.random)
		if ok != (tt.want >= 0) || ok && !next.Equal(accepted.Add(tt.want)) {
			t.Errorf("%s: %v %v, want %v", tt.name, next.Sub(accepted), ok, tt.want)
		}
	}
}

func TestReasonNamesWindow(t *testing.T) {
	if want := fmt.Sprintf("%v hours ", webhook.Window.Hours()); !strings.HasPrefix(WindowPassed, want) {
		t.Errorf("the reason begins with %.10q, want %q", WindowPassed, want)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2024, 5, 17, 10, 20, 30, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              time.Second,
		"120":                            2 * time.Minute,
		" 7 ":                            7 * time.Second,
		"007":                            7 * time.Second,
		"14400":                          webhook.Window,
		"14401":                          webhook.Window,
		"99999999999999999999999":        webhook.Window,
		"18446744073709551615":           webhook.Window,
		"-1":                             0,
		"+5":                             0,
		"1.5":                            0,
		"5s":                             0,
		"0x10":                           0,
		"soon":                           0,
		"Fri, 17 May 2024 10:21:30 GMT":  time.Minute,
		"Friday, 17-May-24 10:21:30 GMT": time.Minute,
		"Fri May 17 10:21:30 2024":       time.Minute,
		"Fri, 17 May 2024 10:20:30 GMT":  0,
		"Thu, 16 May 2024 10:20:30 GMT":  0,
		"Sat, 18 May 2024 10:20:30 GMT":  webhook.Window,
		"Fri, 31 Dec 9999 23:59:59 GMT":  webhook.Window,
		"Fri, 17 May 2024 10:21:30":      0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("Retry-After %q: %v, want %v", value, got, want)
		}
	}
}

func TestRequestedPause(t *testing.T) {
	for _, c := range []struct {
		status           int
		retryAfter, want time.Duration
	}{
		{http.StatusTooManyRequests, 0, 0},
		{http.StatusTooManyRequests, time.Second, time.Second},
		{http.StatusServiceUnavailable, time.Minute, time.Minute},
		{http.StatusServiceUnavailable, webhook.Window, 5 * time.Minute},
		{http.StatusInternalServerError, time.Minute, 0},
		{http.StatusRequestTimeout, time.Minute, 0},
	} {
		if got := RequestedPause(&webhook.Attempt{Status: c.status, RetryAfter: c.retryAfter}); got != c.want {
			t.Errorf("%d, %v: %v, want %v", c.status, c.retryAfter, got, c.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "99999999999999999999", "Fri, 17 May 2024 10:21:30 GMT", "Friday, 17-May-24 10:21:30 GMT", "Mon Jan  2 15:04:05 0001"} {
		f.Add(s)
	}
	now := time.Date(2024, 5, 17, 10, 20, 30, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value string) {
		d := retryAfter(value, now)
		if d != 0 && d < time.Second || d > webhook.Window {
			t.Errorf("Retry-After %q: %v", value, d)
		}
		if date, err := http.ParseTime(value); err == nil && d > 0 && d < webhook.Window && !now.Add(d).Equal(date) {
			t.Errorf("Retry-After %q: %v is another time", value, d)
		}
		var seconds uint16
		if n, err := fmt.Sscanf(value, "%d", &seconds); n == 1 && err == nil && fmt.Sprint(seconds) == value && seconds <= 14400 {
			if d != time.Duration(max(seconds, 1))*time.Second {
				t.Errorf("Retry-After %q: %v", value, d)
			}
		}
	})
}

// FuzzNext checks that the next attempt is neither in the past nor after the window.
func FuzzNext(f *testing.F) {
	f.Add(int64(0), 1, int64(0), 0.5)
	f.Add(int64(webhook.Window), 100, int64(webhook.Window), 1.0)
	f.Fuzz(func(t *testing.T, after int64, attempt int, wait int64, random float64) {
		accepted := time.Date(2024, 5, 17, 10, 0, 0, 0, time.UTC)
		now := accepted.Add(time.Duration(after) % (100 * time.Hour))
		next, ok := Next(now, accepted.Add(webhook.Window), attempt, time.Duration(wait), random)
		if ok && (next.Before(now) || next.After(accepted.Add(webhook.Window))) {
			t.Errorf("at %v comes %v", now.Sub(accepted), next.Sub(accepted))
		}
		if ok == (now.Sub(accepted) >= webhook.Window) {
			t.Errorf("at %v: %v", now.Sub(accepted), ok)
		}
	})
}

// TestStepsOfTheClock checks that the delay uses the monotonic clock, so that it does not depend on
// clock changes.
func TestStepsOfTheClock(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, 24 * time.Hour, 2 * 365 * 24 * time.Hour} {
		now := time.Now()
		end := now.Add(webhook.Window).Round(0)
		for _, retryAfter := range []time.Duration{0, time.Minute, webhook.Window} {
			next, ok := Next(now, end.Add(step), 20, retryAfter, 1)
			if want := max(maxBackoff, retryAfter); !ok || next.Sub(now) != want {
				t.Errorf("%v back: %v %v, want %v", step, next.Sub(now), ok, want)
			}
		}
		if next, ok := Next(now, end.Add(-step), 20, 0, 1); ok != (step < webhook.Window) {
			t.Errorf("%v ahead: %v %v", step, next.Sub(now), ok)
		}
	}
	now := time.Now()
	next, ok := Next(now, now.Add(time.Second).Round(0), 20, 0, 1)
	if !ok || next.String() == next.Round(0).String() {
		t.Errorf("%v %v has no monotonic clock reading", next, ok)
	}
}
