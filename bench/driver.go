package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A job is the task of a driver, which is a process that makes calls with one client.
type job struct {
	Client    string
	Endpoint  string
	Large     bool
	Batch     int
	Patient   bool
	Roomy     bool
	Gzip      bool
	Spool     string        // the directory for the client "spool"
	Producers int           // number of goroutines that make calls; defaults to 8
	Rate      int           // calls per second of all producers together; 0 means as many as the client accepts
	Duration  time.Duration // the time during which calls are made
	Profile   string        // the prefix of file names for profiles; empty for no profiles
}

// A result contains the measurements of a process.
type result struct {
	Made   int64 // number of calls
	Failed int64 // number of calls that returned an error
	Lost   int64 // number of calls that the client reports as lost; -1 if it does not report them

	CPU   time.Duration // user and system time, for a driver from the first call to the end of Close
	Wall  time.Duration
	Close time.Duration // the duration of Close

	Mallocs, AllocBytes uint64
	PeakRSS             int64 // memory in bytes

	Call spread // the duration of a call; measured only if Rate is set
}

// runDriver does the job in text, which is JSON, and prints the result.
func runDriver(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	open, ok := clients[j.Client]
	if !ok {
		return errUnknownClient
	}
	c, err := open(j)
	if err != nil {
		return err
	}
	stop, err := j.startProfile()
	if err != nil {
		return err
	}
	r, err := j.measure(c)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func (j job) measure(c *client) (result, error) {
	var (
		r         result
		made      = make([]int64, j.Producers)
		latencies = make([][]time.Duration, j.Producers)
		failed    atomic.Int64
		group     sync.WaitGroup
		memory    [2]runtime.MemStats
		calls     = make([]func(int) error, j.Producers)
	)
	for p := range calls {
		calls[p] = c.producer(j.Large)
	}
	runtime.GC()
	runtime.ReadMemStats(&memory[0])
	before, _, err := usage()
	if err != nil {
		return r, err
	}
	start := time.Now()
	deadline := start.Add(j.Duration)
	for p := range j.Producers {
		group.Go(func() {
			call := func(i int) {
				if calls[p](i) != nil {
					failed.Add(1)
				}
			}
			if j.Rate == 0 {
				made[p] = flood(call, deadline)
			} else {
				made[p], latencies[p] = pace(call, start, deadline, j.Rate/j.Producers)
			}
		})
	}
	group.Wait()
	closing := time.Now()
	_ = c.close() // the lost calls are counted below
	r.Wall, r.Close = time.Since(start), time.Since(closing)
	after, peak, err := usage()
	r.CPU, r.PeakRSS = after-before, peak
	runtime.ReadMemStats(&memory[1])
	r.Mallocs = memory[1].Mallocs - memory[0].Mallocs
	r.AllocBytes = memory[1].TotalAlloc - memory[0].TotalAlloc
	for _, n := range made {
		r.Made += n
	}
	r.Failed, r.Lost = failed.Load(), -1
	if c.lost != nil {
		r.Lost = c.lost()
	}
	r.Call = spreadOf(slices.Concat(latencies...))
	return r, err
}

// flood makes calls until the deadline, but at least 64. It reads the clock after every 64 calls.
func flood(call func(int), deadline time.Time) (made int64) {
	for {
		for range 64 {
			call(int(made))
			made++
		}
		if !time.Now().Before(deadline) {
			return made
		}
	}
}

// pace makes rate calls per second until the deadline and measures the duration of each call. After
// a slow call it makes calls faster to keep the average rate.
func pace(call func(int), start, deadline time.Time, rate int) (made int64, taken []time.Duration) {
	taken = make([]time.Duration, 0, int(deadline.Sub(start).Seconds()*float64(rate))+rate)
	for {
		due := int64(float64(rate) * time.Since(start).Seconds())
		for ; made < due; made++ {
			before := time.Now()
			call(int(made))
			taken = append(taken, time.Since(before))
		}
		if !time.Now().Before(deadline) {
			return made, taken
		}
		time.Sleep(time.Millisecond)
	}
}

// startProfile starts to write profiles if the job requires them. stop finishes them.
func (j job) startProfile() (stop func() error, err error) {
	if j.Profile == "" {
		return func() error { return nil }, nil
	}
	runtime.MemProfileRate = 4 << 10
	cpu, err := os.Create(j.Profile + ".cpu")
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(j.Profile + ".allocs")
		if err != nil {
			return err
		}
		return errors.Join(cpu.Close(), pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close())
	}, nil
}
