package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// contestants returns the clients with the given names. All of them do the same job.
func (b *bench) contestants(names []string, j job, disturb func(*receiver) error) (all []contestant) {
	for _, name := range names {
		j := j
		j.Client = name
		if b.profile != "" {
			j.Profile = fmt.Sprintf("%s/%s-%t-%d-%d", b.profile, name, j.Large, j.Batch, j.Rate)
		}
		all = append(all, contestant{name, func() (sample, error) { return measure(j, disturb) }})
	}
	return all
}

func (b *bench) workloads() (chosen []workload) {
	for _, w := range workloads {
		if strings.Contains(w.Name, b.workload) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// cost measures the cost of a call when clients make as many calls as possible.
func (b *bench) cost() error {
	names := append(slices.Clone(b.clients), referenceNames...)
	for _, w := range b.workloads() {
		all, err := inTurns(b.roundCount(5), b.contestants(names, job{
			Large: w.Large, Batch: w.Batch, Patient: true, Duration: b.runTime(1500 * time.Millisecond),
		}, nil)...)
		if err != nil {
			return err
		}
		key := "/" + w.key()
		b.table("Maximum rate, 8 producers, "+w.Name, all, cpuColumn,
			column{"relative to the first", relativeCPU, "cpu" + key}, rateColumn,
			column{"allocations per call", medianOf(allocations, ratio), "allocs" + key},
			column{"bytes allocated", medianOf(func(s sample) float64 { return s.each(float64(s.AllocBytes)) }, fixed(0)), ""},
			column{"bytes on the wire", medianOf(func(s sample) float64 { return s.each(float64(s.Bytes)) }, fixed(0)), ""},
			column{"connections", medianOf(func(s sample) int64 { return s.Conns }, grouped), "connections" + key},
			memoryColumn, lostColumn)
	}
	return nil
}

// memory measures the memory of clients that make as many calls as possible. The clients have the
// default memory budget and use all of it.
func (b *bench) memory() error {
	peaks := map[string][]int64{}
	for _, w := range b.workloads() {
		all, err := inTurns(b.roundCount(5), b.contestants(b.clients, job{
			Large: w.Large, Batch: w.Batch, Patient: true, Roomy: true, Duration: b.runTime(1500 * time.Millisecond),
		}, nil)...)
		if err != nil {
			return err
		}
		for _, r := range all {
			peaks[r.name] = append(peaks[r.name], median(r.samples, peakRSS))
		}
		b.table("Maximum rate, 8 producers, default memory budget, "+w.Name, all, rateColumn, cpuColumn, memoryColumn, lostColumn)
	}
	for name, values := range peaks {
		b.measured["memory/"+name] = span(strings.TrimSuffix(megabytes(slices.Min(values)), " MB"), megabytes(slices.Max(values)))
	}
	return nil
}

// forms measures different ways to write a call.
func (b *bench) forms() error {
	all, err := inTurns(b.roundCount(5), b.contestants(formNames, job{Batch: 640, Patient: true, Duration: b.runTime(1500 * time.Millisecond)}, nil)...)
	if err != nil {
		return err
	}
	b.table("A Track of 8 properties, built for each call, in batches of 640", all, cpuColumn,
		column{"relative to the first", relativeCPU, ""}, column{"allocations per call", medianOf(allocations, fixed(2)), ""})
	return nil
}

// latency measures how long a call takes when calls are made at a fixed rate.
func (b *bench) latency() error {
	rate := b.rates(50_000)[0]
	all, err := inTurns(b.roundCount(5), b.contestants(b.clients, job{Large: true, Batch: 100, Rate: rate, Duration: b.runTime(3 * time.Second)}, nil)...)
	if err != nil {
		return err
	}
	columns := append([]column{cpuColumn}, spreadColumns("call, ", func(s sample) spread { return s.Call })...)
	columns[1].figure, columns[2].figure, columns[3].figure = "p50", "p99", "p99.9"
	b.table(fmt.Sprintf("Duration of a call at %d calls/s, L, batch 100", rate), all, append(columns, memoryColumn, lostColumn)...)
	return nil
}

// outageRate is the number of calls per second in an outage.
const outageRate = 20_000

// outages measures clients whose collector is unavailable for some time.
func (b *bench) outages() error {
	away := b.runTime(20 * time.Second)
	for _, kind := range []struct {
		name, key string
		begin     func(*receiver)
	}{
		{"connections refused", "refuse", (*receiver).refuse},
		{"connections accepted, no responses", "hang", (*receiver).hang},
	} {
		all, err := inTurns(1, b.contestants(b.clients, job{
			Large: true, Batch: 100, Gzip: true, Rate: outageRate, Duration: 2 * away,
		}, func(r *receiver) error {
			time.Sleep(away / 4)
			kind.begin(r)
			time.Sleep(away)
			return r.serve()
		})...)
		if err != nil {
			return err
		}
		made := func(n int64) string {
			if float64(n) >= 0.999*outageRate*2*away.Seconds() {
				return "all"
			}
			return grouped(n)
		}
		memory := memoryColumn
		memory.figure = kind.key + "/memory"
		b.table(fmt.Sprintf("%v without a collector (%s), %d calls/s, L, batch 100", away, kind.name, outageRate), all, slices.Concat([]column{
			{"calls", medianOf(func(s sample) int64 { return s.Made }, made), kind.key + "/made"},
			{"lost", medianOf(func(s sample) int64 { return max(0, s.lost()) }, grouped), kind.key + "/lost"},
			{"repeated", medianOf(func(s sample) int64 { return max(0, -s.lost()) }, grouped), ""},
			{"Close", medianOf(func(s sample) time.Duration { return s.Close }, short), ""},
			{"connections", medianOf(func(s sample) int64 { return s.Conns }, grouped), ""},
			memory,
		}, spreadColumns("call, ", func(s sample) spread { return s.Call }))...)
	}
	return nil
}
