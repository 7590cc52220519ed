//go:build unix

package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each process ends a second late
	if ended, err := runRole(); ended {
		exit(err)
	}
	os.Exit(m.Run())
}

// Every call of every client must be counted at the collector, or else nothing
// that is measured means anything.
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
				s, err := new(options).measure(0, j, nil)
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

func TestNothingIsLostWhileTheCollectorIsAway(t *testing.T) {
	for _, command := range []string{"refuse", "hang"} {
		t.Run(command, func(t *testing.T) {
			j := job{Client: "ours", Large: true, Batch: 20, Gzip: true, Rate: 8000, Duration: 300 * time.Millisecond}
			s, err := new(options).measure(0, j, func(c *process) error {
				for { // until calls arrive
					if seen, err := c.tell("tally"); err != nil || seen.Requests > 0 {
						break
					}
				}
				for _, line := range []string{command, "serve"} {
					if _, err := c.tell(line); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if s.Made == 0 || s.lost() > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
