//go:build unix

package main

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // without this, each process exits a second later
	if ended, err := runRole(); ended {
		exit(err)
	}
	os.Exit(m.Run())
}

// The receiver must count every call of every client. Otherwise the measurements are wrong.
func TestEveryCallIsCounted(t *testing.T) {
	for _, name := range clientNames {
		for _, j := range []job{
			{Large: true, Batch: 20, Patient: true},
			{Large: false, Batch: 100, Patient: true},
			{Large: true, Batch: 640, Patient: true},
			{Large: true, Batch: 100, Gzip: true, Rate: 8000},
		} {
			j.Client, j.Duration = name, 100*time.Millisecond
			t.Run(fmt.Sprintf("%s %+v", name, j), func(t *testing.T) {
				s, err := measure(j, nil)
				if err != nil {
					t.Fatal(err)
				}
				if s.Made == 0 || s.Failed != 0 || s.lost() != 0 || s.Requests == 0 || s.CPU <= 0 || s.PeakRSS <= 0 {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

func TestOutageLosesNoCalls(t *testing.T) {
	for name, begin := range map[string]func(*receiver){"refuse": (*receiver).refuse, "hang": (*receiver).hang} {
		t.Run(name, func(t *testing.T) {
			j := job{Client: "ours", Large: true, Batch: 20, Gzip: true, Rate: 8000, Duration: 300 * time.Millisecond}
			s, err := measure(j, func(r *receiver) error {
				for r.tally().Requests == 0 {
					runtime.Gosched()
				}
				begin(r)
				return r.serve()
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.lost() > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Contestants take turns, and a table records the figures of its rows.
func TestTablesRecordFigures(t *testing.T) {
	b := &bench{measured: map[string]string{}}
	var order []string
	runner := func(name string, cpu time.Duration) contestant {
		return contestant{name, func() (s sample, err error) {
			order = append(order, name)
			s.Calls, s.CPU = 1000, cpu*time.Duration(len(order))
			return s, nil
		}}
	}
	all, err := inTurns(2, runner("a", time.Millisecond), runner("b", 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	b.table("", all, column{"", relativeCPU, "cpu"}, column{"", medianOf(cpuPerCall, fixed(1)), ""})
	want := map[string]string{"cpu/a": "4.00 µs", "cpu/b": "8–20 ×"} // a took 1 and 4 µs; b took 20 and 30 µs
	if strings.Join(order, "") != "abba" || !maps.Equal(b.measured, want) {
		t.Errorf("order %v, figures %v, want %v", order, b.measured, want)
	}
}

func TestEachContestantRunsItsClient(t *testing.T) {
	all := new(bench).contestants([]string{"append", "unknown"}, job{Duration: time.Millisecond}, nil)
	if _, err := all[0].run(); err != nil {
		t.Error(err)
	}
	if _, err := all[1].run(); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("unknown client: error %v", err)
	}
}

// The measured rate must be right even if the queue would be empty before the end of the measurement.
func TestDeliverAdaptsToTheRate(t *testing.T) {
	const d, pending = 500 * time.Millisecond, 25_000
	for _, rate := range []int64{1_000, 50_000, 200_000} {
		synctest.Test(t, func(t *testing.T) {
			b, begin := &bench{ctx: t.Context()}, time.Now()
			delivered := func() (int64, error) {
				return min(pending, int64(time.Since(begin).Seconds()*float64(rate))), nil
			}
			before, err := b.awaitCalls(d/5, pending/5, delivered)
			if err != nil {
				t.Fatal(err)
			}
			measuring := time.Now()
			after, err := b.awaitCalls(d, pending*9/10, delivered)
			if err != nil {
				t.Fatal(err)
			}
			took := time.Since(measuring)
			if got := int64(float64(after-before) / took.Seconds()); got < rate*99/100 || got > rate*101/100 || after == pending || took > d*101/100 {
				t.Errorf("%d calls/s, %d delivered in %v; want %d calls/s", got, after, took, rate)
			}
		})
	}
}

// In a short measurement of a real collector, the receiver counts every delivery.
func TestQuietMeasuresTheCollector(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("needs /proc and builds the collector")
	}
	b := &bench{ctx: t.Context(), dir: t.TempDir(), calls: callShape{8, 100, 800, false}, measured: map[string]string{}}
	for _, run := range []quietRun{
		{rate: 100, senders: 1, batch: 1, relay: true},
		{rate: 100, senders: 1, batch: 1, failing: true, backlog: 1000},
	} {
		s, err := b.runQuiet(run, 200*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if s.Calls == 0 || s.PeakRSS == 0 || s.Response.P50 <= 0 || s.Delivery.P50 < s.Response.P50/2 || s.Delivery.Max > 10*time.Second {
			t.Errorf("%+v: %+v", run, s)
		}
	}
}
