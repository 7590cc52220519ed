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

// A sample contains the measurements of one run of a contestant.
type sample struct {
	result
	tally
	RSS             int64  // memory at the end, in bytes
	Writes, Written int64  // number of write system calls, and bytes written to a disk
	Response        spread // time from a request to its response
	Arrival         spread // time from a response to the arrival at the receiver
	Delivery        spread // time from a request to the arrival at the receiver
}

// lost returns the number of calls that did not reach the receiver.
func (s sample) lost() int64 { return s.Made - s.Calls }

func (s sample) each(total float64) float64 { return total / float64(max(s.Calls, 1)) }

// cpuPerCall returns the CPU time per delivered call in microseconds.
func cpuPerCall(s sample) float64 { return s.each(float64(s.CPU.Nanoseconds())) / 1e3 }

func callsPerSecond(s sample) float64 { return float64(s.Calls) / s.Wall.Seconds() }

func allocations(s sample) float64 { return s.each(float64(s.Mallocs)) }

func peakRSS(s sample) int64 { return s.PeakRSS }

// A spread contains percentiles and the maximum of durations.
type spread struct{ P50, P99, P999, Max time.Duration }

func spreadOf(all []time.Duration) spread {
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	at := func(q float64) time.Duration { return all[int(q*float64(len(all)-1))] }
	return spread{at(0.5), at(0.99), at(0.999), at(1)}
}

func median[T cmp.Ordered](samples []sample, value func(sample) T) T {
	var values []T
	for _, s := range samples {
		values = append(values, value(s))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// A column is a column of a table. If the field figure is set, each cell is recorded as a figure.
// The figure's name consists of the field's value, a slash and the name of the row.
type column struct {
	head   string
	cell   func(samples, first []sample) string
	figure string
}

// medianOf returns a function for a column that shows the median of a value.
func medianOf[T cmp.Ordered](value func(sample) T, format func(T) string) func(samples, first []sample) string {
	return func(samples, _ []sample) string { return format(median(samples, value)) }
}

var (
	cpuColumn    = column{"CPU per call, µs", medianOf(cpuPerCall, fixed(2)), ""}
	rateColumn   = column{"calls/s", medianOf(callsPerSecond, func(x float64) string { return grouped(int64(x)) }), ""}
	memoryColumn = column{"peak RSS", medianOf(peakRSS, megabytes), ""}
	lostColumn   = column{"lost", medianOf(sample.lost, grouped), ""}
)

func spreadColumns(prefix string, get func(sample) spread) []column {
	return []column{
		{prefix + "p50", medianOf(func(s sample) time.Duration { return get(s).P50 }, short), ""},
		{"p99", medianOf(func(s sample) time.Duration { return get(s).P99 }, short), ""},
		{"p99.9", medianOf(func(s sample) time.Duration { return get(s).P999 }, short), ""},
		{"longest", medianOf(func(s sample) time.Duration { return get(s).Max }, short), ""},
	}
}

// relativeCPU returns the CPU time for the first row. For other rows, it returns the range of the
// ratios to the first row, computed for each round.
func relativeCPU(samples, first []sample) string {
	if &samples[0] == &first[0] {
		return fixed(2)(median(samples, cpuPerCall)) + " µs"
	}
	var values []float64
	for i, s := range samples {
		values = append(values, cpuPerCall(s)/cpuPerCall(first[i]))
	}
	return span(ratio(slices.Min(values)), ratio(slices.Max(values))) + " ×"
}

// table prints a table and records the figures of its columns.
func (b *bench) table(title string, all []runs, columns ...column) {
	fmt.Printf("\n%s\n\n|", title)
	for _, c := range columns {
		fmt.Printf(" | %s", c.head)
	}
	fmt.Println(" |\n|---" + strings.Repeat("|--:", len(columns)) + "|")
	for _, r := range all {
		fmt.Print("| ", r.name)
		for _, c := range columns {
			text := c.cell(r.samples, all[0].samples)
			fmt.Print(" | ", text)
			if c.figure != "" {
				b.measured[c.figure+"/"+r.name] = text
			}
		}
		fmt.Println(" |")
	}
}

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
	info, _ := os.ReadFile("/proc/cpuinfo") // exists only on Linux
	for line := range strings.Lines(string(info)) {
		if name, model, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown processor"
}

func fixed(digits int) func(float64) string {
	return func(x float64) string { return fmt.Sprintf("%.*f", digits, x) }
}

// ratio formats x with about two significant digits.
func ratio(x float64) string {
	switch {
	case x < 1:
		return fmt.Sprintf("%.2f", x)
	case x < 5:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

// span returns low–high. If both are the same value, it returns high.
func span(low, high string) string {
	if value, _, _ := strings.Cut(high, " "); value == low {
		return high
	}
	return low + "–" + high
}

// grouped formats n with commas between groups of three digits.
func grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+1<<19)>>20) }

// short formats d with about two significant digits.
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
