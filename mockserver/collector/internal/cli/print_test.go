package cli

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressEstimatesRemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgress(io.Discard)
		if got := p.remaining(100, 1000); got != "" {
			t.Errorf("nothing follows from the beginning, but it says %q", got)
		}
		time.Sleep(10 * time.Second)
		if got, want := p.remaining(300, 1000), ", about 35s left"; got != want {
			t.Errorf("remaining = %q, want %q", got, want)
		}
		if got := p.remaining(1000, 1000); got != "" {
			t.Errorf("nothing is left, but it says %q", got)
		}
	})
	for want, got := range map[string]string{" (25 %)": percent(1, 4), "": percent(1, -1), " (100 %)": percent(4, 4)} {
		if got != want {
			t.Errorf("percent = %q, want %q", got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	for value, want := range map[string]time.Duration{"90m": 90 * time.Minute, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "0s": 0} {
		text, err := moment("--since")(value)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if age := time.Since(at); err != nil || age < want || age > want+time.Minute {
			t.Errorf("%s is %s, which is %v ago: %v", value, text, age, err)
		}
	}
	if text, err := moment("--since")("2026-01-31T13:30:00+01:00"); err != nil || text != "2026-01-31T12:30:00Z" {
		t.Errorf("got %s, %v", text, err)
	}
}
