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

// A job is what a driver's process is told to do, with one client.
type job struct {
	Client   string
	Endpoint string
	Large    bool
	Batch    int
	Patient  bool
	Roomy    bool
	Gzip     bool
	Rate     int           // calls a second of all producers; 0 for as many as the client takes
	Duration time.Duration // how long calls are made
	Profile  string        // the start of the names of the profiles to write, if any
}

// A result is what the driver measured.
type result struct {
	Made   int64 // calls made
	Failed int64 // those that returned an error
	Lost   int64 // calls that the client says it lost; -1 if it cannot say

	CPU   time.Duration // user and system, from the first call to the end of Close
	Wall  time.Duration // likewise
	Close time.Duration // how long Close took

	Mallocs, AllocBytes uint64
	PeakRSS             int64 // bytes, of the process

	P50, P99, P999, Max time.Duration // of a call, where Rate is set
}

const producers = 8

// runDriver does the job on standard input and prints its result.
func runDriver() error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	open, ok := clients[j.Client]
	if !ok {
		return errUnknownClient
	}
	c, err := open(j.Endpoint, setup{batch: j.Batch, patient: j.Patient, roomy: j.Roomy, gzip: j.Gzip})
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
		made      [producers]int64
		latencies [producers][]time.Duration
		failed    atomic.Int64
		group     sync.WaitGroup
		memory    [2]runtime.MemStats
		calls     [producers]func(int) error
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
	for p := range producers {
		group.Go(func() {
			call := func(i int) {
				if calls[p](i) != nil {
					failed.Add(1)
				}
			}
			if j.Rate == 0 {
				made[p] = flood(call, deadline)
			} else {
				made[p], latencies[p] = pace(call, start, deadline, j.Rate/producers)
			}
		})
	}
	group.Wait()
	closing := time.Now()
	_ = c.close() // what it did not deliver is counted below
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
	r.quantiles(slices.Concat(latencies[:]...))
	return r, err
}

// flood makes calls until the deadline, looking at the clock now and then. It makes some in
// any case.
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

// pace makes rate calls a second until the deadline and takes the time of
// each. After a call that took long it catches up.
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

func (r *result) quantiles(taken []time.Duration) {
	if len(taken) == 0 {
		return
	}
	slices.Sort(taken)
	at := func(q float64) time.Duration { return taken[int(q*float64(len(taken)-1))] }
	r.P50, r.P99, r.P999, r.Max = at(0.5), at(0.99), at(0.999), at(1)
}

// startProfile begins the profiles, if they are asked for; stop ends them.
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
