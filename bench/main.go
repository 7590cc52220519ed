// Command bench measures the client beside two others of its kind, in one run,
// so that the ratios hold whatever the machine.
//
// Each measurement has a process of its own for the client and one for the
// collector, which reads, counts and answers as cheaply as it can. The clients
// take turns, round by round, and the report has the medians. Every call that a
// client says it made is looked for at the collector.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type options struct {
	rounds   int
	duration time.Duration // of the calls of one measurement
	rate     int           // calls a second, where latency is measured
	outage   time.Duration
	parts    []string
	only     string // what the names of the workloads measured contain
	clients  []string
	profile  string
	measured map[string]string // figures of this run, by their names in figures.json
}

func main() {
	if ended, err := runRole(); ended {
		exit(err)
	}
	quick := flag.Bool("quick", false, "a minute's version: one short round, an outage of 3 s")
	var o options
	var names, parts string
	flag.IntVar(&o.rounds, "rounds", 5, "how often each client is measured")
	flag.DurationVar(&o.duration, "time", 1500*time.Millisecond, "how long calls are made in one measurement")
	flag.IntVar(&o.rate, "rate", 50_000, "how many calls a second are made where latency is measured")
	flag.DurationVar(&o.outage, "outage", 20*time.Second, "how long the collector is away")
	flag.StringVar(&parts, "parts", "cost,forms,memory,latency,outage", "what to measure")
	flag.StringVar(&o.only, "workload", "", "measure the cost of the workloads whose names contain this")
	flag.StringVar(&names, "clients", strings.Join(clientNames, ","), "which clients to measure; the first is the one the others are compared with")
	flag.StringVar(&o.profile, "profile", "", "a directory for a CPU and an allocation profile of each driver of the first round")
	record := flag.String("record", "", "write the results to this file of figures")
	render := flag.String("render", "", "measure nothing: write the figures of bench/figures.json into the documents of this directory")
	table := flag.String("draw", "", "measure nothing: draw the table of costs in this file of Markdown, into docs beside it")
	flag.Parse()
	if *table != "" {
		exit(draw(*table, filepath.Join(filepath.Dir(*table), "docs")))
	}
	if *render != "" {
		exit(renderAll(*render))
	}
	if *record != "" && (*quick || o.only != "") {
		exit(errors.New("-record needs full measurements: omit -quick and -workload"))
	}
	if *quick {
		o.rounds, o.duration, o.outage = 1, 500*time.Millisecond, 3*time.Second
	}
	o.clients, o.parts = strings.Split(names, ","), strings.Split(parts, ",")
	exit(o.runAndRecord(*record))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAndRecord measures, and updates the file of figures if there is one.
func (o *options) runAndRecord(file string) error {
	if file == "" {
		return o.run()
	}
	f, err := readFigures(file)
	if err != nil {
		return err
	}
	if err := o.run(); err != nil {
		return err
	}
	f.update(o.measured, time.Now())
	return f.write(file)
}

func (o *options) run() error {
	o.measured = map[string]string{}
	for _, name := range o.clients {
		if clients[name] == nil {
			return fmt.Errorf("%w: %q; there are %s", errUnknownClient, name, strings.Join(clientNames, ", "))
		}
	}
	parts := map[string]func() error{"cost": o.cost, "forms": o.forms, "memory": o.memory, "latency": o.latency, "outage": o.outages}
	for _, name := range o.parts {
		if parts[name] == nil {
			return fmt.Errorf("no such part: %q; there are cost, forms, memory, latency, outage", name)
		}
	}
	printMachine()
	for _, name := range o.parts {
		if err := parts[name](); err != nil {
			return err
		}
	}
	return nil
}

// cost has every client make as many calls as it can.
func (o *options) cost() error {
	samples := map[string]map[string][]sample{}
	for round := range o.rounds {
		for _, w := range o.workloads() {
			for _, name := range append(o.turn(round), referenceNames...) {
				s, err := o.measure(round, job{
					Client: name, Large: w.Large, Batch: w.Batch, Patient: true, Duration: o.duration,
				}, nil)
				if err != nil {
					return err
				}
				if samples[w.Name] == nil {
					samples[w.Name] = map[string][]sample{}
				}
				samples[w.Name][name] = append(samples[w.Name][name], s)
			}
		}
	}
	o.printCost(samples)
	return nil
}

// memory has every client make as many calls as it can, ours with its default budget of
// 64 MiB, which they fill.
func (o *options) memory() error {
	samples := map[string]map[string][]sample{}
	for round := range o.rounds {
		for _, w := range o.workloads() {
			if samples[w.Name] == nil {
				samples[w.Name] = map[string][]sample{}
			}
			for _, name := range o.turn(round) {
				s, err := o.measure(round, job{
					Client: name, Large: w.Large, Batch: w.Batch, Patient: true, Roomy: true, Duration: o.duration,
				}, nil)
				if err != nil {
					return err
				}
				samples[w.Name][name] = append(samples[w.Name][name], s)
			}
		}
	}
	o.printMemory(samples)
	return nil
}

func (o *options) workloads() (chosen []workload) {
	for _, w := range workloads {
		if strings.Contains(w.Name, o.only) {
			chosen = append(chosen, w)
		}
	}
	return chosen
}

// latency has every client make o.rate calls a second.
func (o *options) latency() error {
	samples := map[string][]sample{}
	for round := range o.rounds {
		for _, name := range o.turn(round) {
			s, err := o.measure(round, job{
				Client: name, Large: true, Batch: 100, Rate: o.rate, Duration: 2 * o.duration,
			}, nil)
			if err != nil {
				return err
			}
			samples[name] = append(samples[name], s)
		}
	}
	o.printLatency(samples)
	return nil
}

// outageRate is the number of calls per second in an outage.
const outageRate = 20_000

// outages has every client make outageRate calls per second while the collector goes
// away and comes back.
func (o *options) outages() error {
	kinds := []struct{ name, command string }{
		{"connections refused", "refuse"},
		{"accepted, never answered", "hang"},
	}
	for _, kind := range kinds {
		samples := map[string][]sample{}
		for _, name := range o.clients {
			s, err := o.measure(0, job{
				Client: name, Large: true, Batch: 100, Gzip: true, Rate: outageRate, Duration: 2 * o.outage,
			}, func(c *process) error {
				time.Sleep(o.outage / 4)
				if _, err := c.tell(kind.command); err != nil {
					return err
				}
				time.Sleep(o.outage)
				_, err := c.tell("serve")
				return err
			})
			if err != nil {
				return err
			}
			samples[name] = append(samples[name], s)
		}
		o.printOutage(kind.name, kind.command, samples)
	}
	return nil
}

// turn is the clients in the order of a round: each is first at times.
func (o *options) turn(round int) []string {
	n := round % len(o.clients)
	return append(append([]string(nil), o.clients[n:]...), o.clients[:n]...)
}
