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
