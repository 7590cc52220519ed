package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

func printMachine() {
	fmt.Printf("%s, %d cores, %s, %s/%s\n", cpuModel(), runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if strings.Contains(m.Path, "posthog-go") || strings.Contains(m.Path, "analytics-go/v3") {
				fmt.Printf("%s %s\n", m.Path, m.Version)
			}
		}
	}
}

func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // where there is one
	for line := range strings.Lines(string(info)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown processor"
}

// median is that of what of makes of the samples.
func median[T cmp.Ordered](samples []sample, of func(sample) T) T {
	var values []T
	for _, s := range samples {
		values = append(values, of(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func (s sample) each(total float64) float64 { return total / float64(max(s.Calls, 1)) }

// cpuPerCall is in microseconds, for each call that was delivered.
func cpuPerCall(s sample) float64 { return s.each(float64(s.CPU.Nanoseconds())) / 1e3 }

func callsPerSecond(s sample) float64 { return float64(s.Calls) / s.Wall.Seconds() }

func row(cells ...any) {
	fmt.Print("|")
	for _, c := range cells {
		fmt.Printf(" %v |", c)
	}
	fmt.Println()
}

func head(title string, cells ...any) {
	fmt.Printf("\n%s\n\n", title)
	row(cells...)
	fmt.Println("|---" + strings.Repeat("|--:", len(cells)-1) + "|")
}

func (o *options) printCost(samples map[string]map[string][]sample) {
	base := o.clients[0]
	head("As many calls as the client takes, 8 producers", "workload", "client", "CPU µs a call", "of "+base,
		"calls/s", "allocations a call", "bytes allocated", "bytes on the wire", "connections", "peak RSS", "lost")
	for _, w := range o.workloads() {
		for _, name := range append(slices.Clone(o.clients), referenceNames...) {
			list := samples[w.Name][name]
			o.recordCost(w.key(), name, list, samples[w.Name][base])
			row(w.Name, name, fmt.Sprintf("%.3f", median(list, cpuPerCall)), ratios(list, samples[w.Name][base]),
				fmt.Sprintf("%.0fk", median(list, callsPerSecond)/1e3),
				fmt.Sprintf("%.3f", median(list, func(s sample) float64 { return s.each(float64(s.Mallocs)) })),
				fmt.Sprintf("%.0f", median(list, func(s sample) float64 { return s.each(float64(s.AllocBytes)) })),
				fmt.Sprintf("%.0f", median(list, func(s sample) float64 { return s.each(float64(s.Bytes)) })),
				median(list, func(s sample) int64 { return s.Conns }),
				megabytes(median(list, func(s sample) int64 { return s.PeakRSS })),
				median(list, sample.lost))
		}
	}
}

// ratios returns the range of the client's CPU as a multiple of the base's, round by round.
func ratios(list, base []sample) string {
	var values []float64
	for i, s := range list {
		values = append(values, cpuPerCall(s)/cpuPerCall(base[i]))
	}
	return span(ratio(slices.Min(values)), ratio(slices.Max(values))) + " ×"
}

// ratio has two digits or so.
func ratio(x float64) string {
	switch {
	case x < 1:
		return fmt.Sprintf("%.2f", x)
	case x < 5:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// span returns low–high, or one of them if they are equal.
func span(low, high string) string {
	if low == high {
		return low
	}
	return low + "–" + high
}

// grouped returns n with a comma between thousands.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// recordCost records the figures of one client and workload.
func (o *options) recordCost(key, name string, list, base []sample) {
	cpu := fmt.Sprintf("%.2f µs", median(list, cpuPerCall))
	if name != o.clients[0] {
		cpu = ratios(list, base)
	}
	allocs := median(list, func(s sample) float64 { return s.each(float64(s.Mallocs)) })
	o.measured["cpu/"+key+"/"+name] = cpu
	o.measured["allocs/"+key+"/"+name] = ratio(allocs)
	o.measured["connections/"+key+"/"+name] = grouped(median(list, func(s sample) int64 { return s.Conns }))
}

// recordMemory records the range of the clients' peak memory over the workloads.
func (o *options) recordMemory(samples map[string]map[string][]sample) {
	for _, name := range o.clients {
		var peaks []int64
		for _, byClient := range samples {
			peaks = append(peaks, median(byClient[name], func(s sample) int64 { return s.PeakRSS }))
		}
		low, _, _ := strings.Cut(megabytes(slices.Min(peaks)), " ")
		high, _, _ := strings.Cut(megabytes(slices.Max(peaks)), " ")
		o.measured["memory/"+name] = span(low, high) + " MB"
	}
}

// recordOutage records the figures of one client in an outage.
func (o *options) recordOutage(key, name string, s sample) {
	made := grouped(s.Made)
	if float64(s.Made) >= 0.999*outageRate*2*o.outage.Seconds() {
		made = "all"
	}
	o.measured[key+"/made/"+name] = made
	o.measured[key+"/lost/"+name] = grouped(max(0, s.lost()))
	o.measured[key+"/memory/"+name] = megabytes(s.PeakRSS)
}

func (o *options) printMemory(samples map[string]map[string][]sample) {
	o.recordMemory(samples)
	rss := func(s sample) int64 { return s.PeakRSS }
	head("As many calls as the client takes, 8 producers, ours with a budget of 64 MiB", "workload", "client", "calls/s", "CPU µs a call", "peak RSS", "largest", "lost")
	for _, w := range o.workloads() {
		for _, name := range o.clients {
			list := samples[w.Name][name]
			largest := slices.MaxFunc(list, func(a, b sample) int { return cmp.Compare(a.PeakRSS, b.PeakRSS) })
			row(w.Name, name, fmt.Sprintf("%.0fk", median(list, callsPerSecond)/1e3), fmt.Sprintf("%.2f", median(list, cpuPerCall)),
				megabytes(median(list, rss)), megabytes(largest.PeakRSS), median(list, sample.lost))
		}
	}
}

func (o *options) printLatency(samples map[string][]sample) {
	head(fmt.Sprintf("The time of one call at %d calls/s, L, batch 100", o.rate), "client", "cpu", "p50", "p99", "p99.9", "longest", "peak RSS", "lost")
	for _, name := range o.clients {
		list := samples[name]
		p50 := short(median(list, func(s sample) time.Duration { return s.P50 }))
		p99 := short(median(list, func(s sample) time.Duration { return s.P99 }))
		p999 := short(median(list, func(s sample) time.Duration { return s.P999 }))
		o.measured["p50/"+name], o.measured["p99/"+name], o.measured["p99.9/"+name] = p50, p99, p999
		row(name, fmt.Sprintf("%.2f", median(list, cpuPerCall)), p50, p99, p999,
			short(median(list, func(s sample) time.Duration { return s.Max })),
			megabytes(median(list, func(s sample) int64 { return s.PeakRSS })),
			median(list, sample.lost))
	}
}

func (o *options) printOutage(kind, key string, samples map[string][]sample) {
	head(fmt.Sprintf("%v without a collector (%s), %d calls/s, L, batch 100", o.outage, kind, outageRate),
		"client", "calls", "lost", "p99.9 of a call", "longest", "Close took", "peak RSS", "connections")
	for _, name := range o.clients {
		s := samples[name][0]
		o.recordOutage(key, name, s)
		row(name, s.Made, lostOrRepeated(s), short(s.P999), short(s.Max), short(s.Close), megabytes(s.PeakRSS), s.Conns)
	}
}

// lostOrRepeated shows more calls at the collector than were made as what they
// are: batches that were sent again although they had been taken.
func lostOrRepeated(s sample) string {
	if n := s.lost(); n < 0 {
		return fmt.Sprintf("0, %d repeated", -n)
	}
	return fmt.Sprint(s.lost())
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+1<<19)>>20) }

// short rounds d to two digits or so.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(d.Nanoseconds())/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
