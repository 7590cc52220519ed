package stats_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/stats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

func attempt(destination string, took time.Duration, edit func(*tracking.Attempt)) tracking.Attempt {
	a := tracking.Attempt{CallID: "m1", Source: "web", Destination: destination,
		Attempt: webhook.Attempt{Time: time.Now().Add(-took), Duration: took, Status: 200, Verdict: webhook.Success}}
	if edit != nil {
		edit(&a)
	}
	return a
}

func refused(a *tracking.Attempt) {
	a.Status, a.Verdict, a.Reason, a.Error = 400, webhook.Permanent, webhook.ReasonStatus, "responded with 400 (Bad Request)"
}

func TestAttemptsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := stats.NewDestinations()
		began := time.Now()
		for range 3 {
			d.Observe(attempt("crm", time.Millisecond, nil))
		}
		d.Observe(attempt("crm", time.Millisecond, refused))
		check := func(name string, hour, day, dayFailed int64) {
			t.Helper()
			m := d.Of("crm")
			if m.Hour.Attempts != hour || m.Day.Attempts != day || m.Day.Failed != dayFailed || !m.Since.Equal(began) {
				t.Errorf("%s: %+v, want %d attempts in the hour, %d in the day, %d failed", name, m, hour, day, dayFailed)
			}
		}
		check("at once", 4, 4, 1)
		time.Sleep(59 * time.Minute)
		check("after 59 minutes", 4, 4, 1)
		time.Sleep(2 * time.Minute)
		d.Observe(attempt("crm", time.Millisecond, nil))
		check("after 61 minutes", 1, 5, 1)
		time.Sleep(24*time.Hour + 15*time.Minute)
		check("a day later", 0, 0, 0)
		if f := d.Of("crm").LastFailure; f == nil || f.Status != 400 || f.CallID != "m1" || f.Error == "" {
			t.Errorf("last failure %+v, want the refused call", f)
		}
	})
}

func TestPercentilesAreWithinTenPercent(t *testing.T) {
	d := stats.NewDestinations()
	for ms := 1; ms <= 1000; ms++ {
		d.Observe(attempt("crm", time.Duration(ms)*time.Millisecond, nil))
	}
	m := d.Of("crm").Day // the last day, because the attempts may be in two different minutes
	for _, c := range []struct {
		name      string
		got, want time.Duration
	}{{"p50", time.Duration(m.P50), 500 * time.Millisecond}, {"p95", time.Duration(m.P95), 950 * time.Millisecond}} {
		if off := float64(c.got-c.want) / float64(c.want); off < -0.1 || off > 0.1 {
			t.Errorf("%s is %v, want %v within 10 %%", c.name, c.got, c.want)
		}
	}
}

func TestVeryLongDurationsAreCounted(t *testing.T) {
	d := stats.NewDestinations()
	d.Observe(attempt("fast", 0, nil))
	d.Observe(attempt("slow", time.Hour, func(a *tracking.Attempt) { a.Time = time.Now() }))
	if got := time.Duration(d.Of("fast").Day.P50); got <= 0 || got > 100*time.Microsecond {
		t.Errorf("the median of an attempt of 0 s is %v", got)
	}
	d.Observe(attempt("slow", time.Hour, nil))
	if got := time.Duration(d.Of("slow").Day.P95); got < 60*time.Second {
		t.Errorf("the p95 of an attempt of an hour is %v", got)
	}
}

func TestUnsentAttemptsHaveNoDuration(t *testing.T) {
	d := stats.NewDestinations()
	d.Observe(attempt("crm", 3*time.Second, func(a *tracking.Attempt) {
		a.Status, a.Verdict, a.Reason, a.NotConnected = 0, webhook.Temporary, webhook.ReasonDNS, true
	}))
	d.Observe(attempt("crm", time.Second, func(a *tracking.Attempt) {
		a.Status, a.Verdict, a.Reason = 0, webhook.Temporary, webhook.ReasonCanceled
	}))
	if m := d.Of("crm").Day; m.Attempts != 1 || m.Failed != 1 || m.P50 != 0 {
		t.Errorf("%+v, want one failed attempt without a duration: the collector canceled the other", m)
	}
}

// One call of a batch is delivered, and its attempt represents the request. Another is refused.
func TestLastFailureIsCounted(t *testing.T) {
	d := stats.NewDestinations()
	d.Observe(attempt("crm", time.Millisecond, nil))
	d.Observe(attempt("crm", time.Millisecond, func(a *tracking.Attempt) {
		refused(a)
		a.Shared = true
	}))
	if m := d.Of("crm"); m.Day.Attempts != 1 || m.Day.Failed != 0 || m.LastFailure != nil {
		t.Errorf("%+v, want one successful request", m)
	}
}

func TestDeletedDestinationStartsAtZero(t *testing.T) {
	d := stats.NewDestinations()
	d.Observe(attempt("crm", time.Millisecond, refused))
	d.Delete("crm")
	if m := d.Of("crm"); m.Day.Attempts != 0 || m.LastFailure != nil {
		t.Errorf("a deleted destination has %+v", m)
	}
}

func TestMemoryOfDestinationsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		d := stats.NewDestinations()
		const names = 100
		for range 24 * 4 {
			for n := range names {
				d.Observe(attempt(fmt.Sprint("d", n), time.Millisecond, nil))
			}
			time.Sleep(15 * time.Minute)
		}
		for range 60 {
			for n := range names {
				d.Observe(attempt(fmt.Sprint("d", n), time.Millisecond, nil))
			}
			time.Sleep(time.Minute)
		}
		if each := (heap() - before) / names; each > 64<<10 {
			t.Errorf("a busy destination takes %d bytes, want 64 KiB at most", each)
		}
		for n := range 3000 {
			d.Observe(attempt(fmt.Sprint("e", n), time.Millisecond, nil))
		}
		if got := d.Of("d0").Day.Attempts; got != 0 {
			t.Errorf("the oldest of 3,100 destinations has %d attempts", got)
		}
		if got := d.Of("e2999").Day.Attempts; got != 1 {
			t.Errorf("the newest of 3,100 destinations has %d attempts, want 1", got)
		}
	})
}

func BenchmarkObserveDestinations(b *testing.B) {
	d := stats.NewDestinations()
	a := attempt("crm", 20*time.Millisecond, nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d.Observe(a)
		}
	})
}
