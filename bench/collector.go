package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A callShape describes the requests that are sent to a collector.
type callShape struct {
	senders, batch, size int
	noise                bool // the calls do not compress
}

func (c callShape) load(url string) *harness.Load {
	return &harness.Load{URLs: []string{url}, WriteKey: "load", Senders: c.senders, Batch: c.batch, CallSize: c.size, Noise: c.noise}
}

// secret is the key for the signatures of deliveries.
const secret = "s3cret"

// hook returns the configuration of a destination.
func hook(name, url string) string {
	return fmt.Sprintf("- name: %s\n  sharedSecret: %s\n  webhooks: [{url: '%s'}]\n", name, secret, url)
}

// collector starts a collector. config is the end of its configuration. If again is set, the
// collector uses the data directory of the previous collector, and otherwise an empty one.
func (b *bench) collector(config string, again bool) (*harness.Collector, error) {
	data := filepath.Join(b.dir, "data")
	if !again {
		if err := os.RemoveAll(data); err != nil {
			return nil, err
		}
	}
	return b.serve("data: " + data + "\nsources: [{name: web, writeKey: load}, {name: other, writeKey: backlog}]\n" + config)
}

// serve starts a collector. The first call builds the program.
func (b *bench) serve(config string) (*harness.Collector, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, err
	}
	if b.binary == "" {
		if b.binary, err = harness.Build(b.ctx, b.dir); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(b.dir, "collector.yaml")
	config = fmt.Sprintf("listen: %s\nlog: {level: warn}\negress: {allow: [127.0.0.0/8]}\n%s", address, config)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return harness.Serve(b.binary, file, address, nil)
}

// observe measures a process during the function do. If there is a directory for profiles, observe also
// writes a profile of the collector. do returns the number of calls.
func (b *bench) observe(p *harness.Process, url string, d time.Duration, do func() (calls int64, err error)) (s sample, err error) {
	before, err := p.Usage()
	if err != nil {
		return s, err
	}
	profile := make(chan error, 1)
	go func() {
		defer close(profile)
		if b.profile != "" && url != "" {
			profile <- download(fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", url, max(1, int(d.Seconds()))), filepath.Join(b.profile, "collector.cpu"))
		}
	}()
	begin := time.Now()
	s.Calls, err = do()
	s.Wall = time.Since(begin)
	if err := errors.Join(err, <-profile); err != nil {
		return s, err
	}
	after, err := p.Usage()
	s.Made, s.CPU, s.PeakRSS, s.RSS = s.Calls, after.CPU-before.CPU, after.PeakRSS, after.RSS
	s.Writes, s.Written = after.Writes-before.Writes, after.Written-before.Written
	if s.Calls == 0 {
		err = errors.Join(err, errors.New("no calls were counted"))
	}
	return s, err
}

func download(url, path string) error {
	res, err := http.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, res.Body)
	return errors.Join(err, f.Close())
}

// sendFor sends calls for the duration d and returns the number of accepted calls.
func (b *bench) sendFor(l *harness.Load, d time.Duration) (int64, error) {
	ctx, cancel := context.WithTimeout(b.ctx, d)
	defer cancel()
	l.Do(ctx, time.Minute)
	if n := l.Errors.Load(); n > 0 {
		return 0, fmt.Errorf("%d requests failed", n)
	}
	return l.Sent.Load(), b.ctx.Err()
}

// A ledger is the account of a destination. Holds is the result of verifying it.
type ledger struct {
	tracking.Ledger
	Holds bool
}

// readLedger returns the ledger of a collector's only destination.
func (b *bench) readLedger(c *harness.Collector, query string) (l ledger, err error) {
	var response struct{ Destinations []ledger }
	if err := c.Ask(b.ctx, http.MethodGet, "/ledger"+query, nil, &response); err != nil {
		return l, err
	}
	if len(response.Destinations) != 1 {
		return l, fmt.Errorf("the ledger has %d destinations instead of one", len(response.Destinations))
	}
	return response.Destinations[0], nil
}

// awaitDelivered waits until no call is pending.
func (b *bench) awaitDelivered(c *harness.Collector) error {
	return b.await(100*time.Millisecond, func() (bool, error) {
		l, err := b.readLedger(c, "")
		return l.Pending == 0, err
	})
}

// fillPaused fills the queue of the destination hook while it is paused. It returns the number of
// accepted calls.
func (b *bench) fillPaused(c *harness.Collector, backlog *harness.Load) (n int64, err error) {
	if err := c.Ask(b.ctx, http.MethodPost, "/destinations/hook/pause", nil, nil); err != nil {
		return 0, err
	}
	if n, err = b.sendFor(backlog, 10*time.Minute); err != nil {
		return n, err
	}
	return n, c.Ask(b.ctx, http.MethodPost, "/destinations/hook/resume", nil, nil)
}

func (b *bench) ingest() error {
	d := b.runTime(5 * time.Second)
	send := func(p *harness.Process, url, profiled string) (sample, error) {
		defer p.Kill()
		return b.observe(p, profiled, d, func() (int64, error) { return b.sendFor(b.calls.load(url), d) })
	}
	collector := func(config string) func() (sample, error) {
		return func() (sample, error) {
			c, err := b.collector(config, false)
			if err != nil {
				return sample{}, err
			}
			return send(c.Process, c.URL, c.URL)
		}
	}
	all, err := inTurns(b.roundCount(3), contestant{"bare handler", func() (sample, error) {
		p, url, err := startRelay()
		if err != nil {
			return sample{}, err
		}
		return send(p, url, "")
	}}, contestant{"collector, sync: always", collector("")}, contestant{"collector, sync: 1s", collector("sync: 1s\n")})
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Accepted calls: %d senders, %d calls of %d bytes per request, %v", b.calls.senders, b.calls.batch, b.calls.size, d), all, rateColumn, cpuColumn, memoryColumn)
	b.measured["load/ingest-bare"], b.measured["load/ingest"] = rateColumn.cell(all[0].samples, nil), rateColumn.cell(all[1].samples, nil)
	return nil
}

// concurrency is the number of concurrent requests in deliver.
const concurrency = 64

func (b *bench) deliver() error {
	const batches, distant = "batch: {calls: 100}", 10 * time.Millisecond
	d := b.runTime(5 * time.Second)
	all, err := inTurns(b.roundCount(3),
		contestant{"loop of http.Client", func() (sample, error) {
			return measure(job{Client: "post", Producers: concurrency, Duration: d}, nil)
		}},
		contestant{"collector", func() (sample, error) { return b.deliverBacklog(d, "", 0) }},
		contestant{"… batches of 100", func() (sample, error) { return b.deliverBacklog(d, batches, 0) }},
		contestant{"… responses after 10 ms", func() (sample, error) { return b.deliverBacklog(d, "", distant) }},
		contestant{"… responses after 10 ms, batches of 100", func() (sample, error) { return b.deliverBacklog(d, batches, distant) }})
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Deliveries, %d concurrent requests, %v", concurrency, d), all, rateColumn, cpuColumn)
	share := fmt.Sprintf("%.0f %%", 100*median(all[1].samples, callsPerSecond)/median(all[0].samples, callsPerSecond))
	fmt.Printf("\ncollector: %s of the rate of the loop\n", share)
	b.measured["load/deliver-share"] = share
	return nil
}

// deliverBacklog fills the queue of a paused destination, and then resumes the destination. settings are
// additional settings of the destination, in YAML. The receiver responds after a delay.
func (b *bench) deliverBacklog(d time.Duration, settings string, delay time.Duration) (s sample, err error) {
	r, err := newReceiver()
	if err != nil {
		return s, err
	}
	r.delay.Store(int64(delay))
	defer r.refuse()
	c, err := b.collector(fmt.Sprintf("limits: {concurrency: %d}\ndestinations:\n%s  %s\n", concurrency, hook("hook", r.url()), settings), false)
	if err != nil {
		return s, err
	}
	defer c.Kill()
	backlog := b.calls.load(c.URL)
	backlog.Calls = int64(d.Seconds() * 50_000)
	pending, err := b.fillPaused(c, backlog)
	if err != nil {
		return s, err
	}
	delivered := func() (int64, error) {
		l, err := b.readLedger(c, "")
		return l.Delivered, err
	}
	before, err := b.awaitCalls(d/5, pending/5, delivered) // warm up before the measurement
	if err != nil {
		return s, err
	}
	return b.observe(c.Process, c.URL, d, func() (int64, error) {
		after, err := b.awaitCalls(d, pending*9/10, delivered) // at the end, fewer calls than slots are left
		return after - before, err
	})
}

// awaitCalls waits for the duration d, or until n calls were delivered. It returns the number of delivered
// calls.
func (b *bench) awaitCalls(d time.Duration, n int64, delivered func() (int64, error)) (calls int64, err error) {
	end := time.Now().Add(d)
	err = b.await(d/100, func() (done bool, err error) {
		calls, err = delivered()
		return calls >= n || !time.Now().Before(end), err
	})
	return calls, err
}

// A quietRun is a measurement at a rate far below the maximum.
type quietRun struct {
	rate, senders, batch int
	relay                bool   // measure a minimal relay instead of a collector
	failing              bool   // add a second destination that fails
	status               int    // the response status of the second destination; 0 means no response
	backlog              int    // number of pending calls of the second destination
	other                string // URL of the second destination
}

func (b *bench) dead() error {
	d, backlog := b.runTime(8*time.Second), b.callCount(b.backlog)
	run := quietRun{rate: b.rates(300)[0], senders: 2, batch: 5}
	other := run
	other.failing, other.status, other.backlog = true, b.failing, backlog
	all, err := inTurns(b.roundCount(2), b.contestant("alone", run, d), b.contestant("while another destination fails", other, d))
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Delivery while another destination fails with %s pending calls, %d calls/s", grouped(int64(backlog)), run.rate), all,
		append(spreadColumns("request to webhook, ", func(s sample) spread { return s.Delivery }), memoryColumn)...)
	p50 := func(s sample) time.Duration { return s.Delivery.P50 }
	b.measured["load/dead-delay"] = fixed(2)(float64(median(all[1].samples, p50)) / float64(median(all[0].samples, p50)))
	b.measured["load/dead-memory"] = memoryColumn.cell(all[1].samples, nil)
	return nil
}

func (b *bench) quiet() error {
	d := b.runTime(10 * time.Second)
	for _, rate := range b.rates(30, 100, 500) {
		all, err := inTurns(b.roundCount(3),
			b.contestant("bare relay", quietRun{rate: rate, senders: 4, batch: 1, relay: true}, d),
			b.contestant("collector", quietRun{rate: rate, senders: 4, batch: 1}, d),
			b.contestant("… while another destination hangs", quietRun{rate: rate, senders: 4, batch: 1, failing: true}, d))
		if err != nil {
			return err
		}
		get := func(s sample) spread { return s.Response }
		b.table(fmt.Sprintf("Single calls at %d/s", rate), all, append(append([]column{cpuColumn,
			{"writes per call", medianOf(func(s sample) float64 { return s.each(float64(s.Writes)) }, fixed(1)), ""},
			{"kB to disk", medianOf(func(s sample) float64 { return s.each(float64(s.Written)) / 1e3 }, fixed(1)), ""},
		}, spreadColumns("response, ", get)[:2]...), spreadColumns("then delivery, ", func(s sample) spread { return s.Arrival })[:2]...)...)
		if rate == 30 {
			p50 := medianOf(func(s sample) time.Duration { return s.Arrival.P50 }, short)
			b.measured["compare/delay/collector"], b.measured["compare/isolation/collector"] = p50(all[1].samples, nil), p50(all[2].samples, nil)
		}
	}
	return nil
}

func (b *bench) contestant(name string, run quietRun, d time.Duration) contestant {
	return contestant{name, func() (sample, error) { return b.runQuiet(run, d) }}
}

// runQuiet starts a program, creates the backlog, and measures the program at a fixed rate.
func (b *bench) runQuiet(run quietRun, d time.Duration) (s sample, err error) {
	r := harness.NewReceiver()
	defer r.Close()
	if run.failing {
		failing := harness.NewReceiver()
		defer failing.Close()
		failing.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(run.status) })
		run.other = failing.URL
	}
	if run.failing && run.status == 0 {
		address, closePort, err := harness.DeadPort()
		if err != nil {
			return s, err
		}
		defer func() { _ = closePort() }()
		run.other = "http://" + address
	}
	p, url, err := b.startQuiet(run, r)
	if err != nil {
		return s, err
	}
	defer p.Kill()
	if run.backlog > 0 {
		fill := b.calls.load(url)
		fill.WriteKey, fill.Run, fill.Calls = "backlog", 2, int64(run.backlog)
		if _, err := b.sendFor(fill, time.Minute); err != nil {
			return s, err
		}
	}
	if _, err := b.sendQuiet(run, 1, url, r, min(d, 2*time.Second)); err != nil { // open the connections, and let the collector detect the failing destination
		return s, err
	}
	var calls *harness.Load
	profiled := url
	if run.relay {
		profiled = ""
	}
	s, err = b.observe(p, profiled, d, func() (n int64, err error) {
		calls, err = b.sendQuiet(run, 0, url, r, d)
		return calls.Sent.Load(), err
	})
	if err != nil {
		return s, err
	}
	var response, arrival, delivery []time.Duration
	for c := range calls.All {
		at := r.At(c.ID)
		response = append(response, c.Answered.Sub(c.Begun))
		arrival = append(arrival, max(0, at.Sub(c.Answered))) // a call can arrive before the response
		delivery = append(delivery, at.Sub(c.Begun))
	}
	s.Response, s.Arrival, s.Delivery = spreadOf(response), spreadOf(arrival), spreadOf(delivery)
	return s, nil
}

func (b *bench) startQuiet(run quietRun, r *harness.Receiver) (*harness.Process, string, error) {
	if run.relay {
		return startRelay(r.URL, filepath.Join(b.dir, "relayed"))
	}
	r.Config.Handler = webhook.Handler(secret, r) // set before the first request
	config := fmt.Sprintf("destinations:\n- {name: hook, sources: [web], sharedSecret: %s, webhooks: [{url: '%s'}]}\n", secret, r.URL)
	if run.other != "" {
		config += hook("failing", run.other)
	}
	c, err := b.collector(config, false)
	if err != nil {
		return nil, "", err
	}
	return c.Process, c.URL, nil
}

// sendQuiet sends calls at a fixed rate and waits until they have arrived.
func (b *bench) sendQuiet(run quietRun, id byte, url string, r *harness.Receiver, d time.Duration) (*harness.Load, error) {
	calls := callShape{senders: run.senders, batch: run.batch, size: b.calls.size}.load(url)
	calls.Rate, calls.Run = run.rate, id
	if _, err := b.sendFor(calls, d); err != nil {
		return calls, err
	}
	deadline := time.Now().Add(10 * time.Second)
	return calls, b.await(10*time.Millisecond, func() (bool, error) {
		missing := r.Missing(calls)
		if missing > 0 && time.Now().After(deadline) {
			return false, fmt.Errorf("%d calls did not arrive within 10 s", missing)
		}
		return missing == 0, nil
	})
}

func (b *bench) single() error {
	d := b.runTime(10 * time.Second)
	shape := callShape{senders: max(32, b.calls.senders), batch: 1, size: b.calls.size}
	all, err := inTurns(b.roundCount(3), contestant{"collector", func() (s sample, err error) {
		r := harness.NewReceiver()
		defer r.Close()
		p, url, err := b.startQuiet(quietRun{}, r)
		if err != nil {
			return s, err
		}
		defer p.Kill()
		calls := shape.load(url)
		return b.observe(p, url, d, func() (int64, error) {
			sent, err := b.sendFor(calls, d)
			for err == nil && r.Distinct() < sent {
				err = wait(b.ctx, 10*time.Millisecond)
			}
			return sent, err
		})
	}})
	if err != nil {
		return err
	}
	b.table(fmt.Sprintf("Single calls, stored and delivered, %d senders", shape.senders), all, rateColumn, cpuColumn, memoryColumn)
	b.measured["compare/rate/collector"] = rateColumn.cell(all[0].samples, nil)
	b.measured["compare/cpu/collector"] = fixed(0)(median(all[0].samples, cpuPerCall)) + " s"
	return nil
}

// A state describes the calls that a data directory contains.
type state struct {
	calls     int
	delivered bool // the calls are delivered; otherwise they are pending
}

func (s state) String() string {
	switch {
	case s.calls == 0:
		return "empty"
	case s.delivered:
		return grouped(int64(s.calls)) + " calls delivered"
	}
	return grouped(int64(s.calls)) + " calls pending"
}

func (b *bench) start() error {
	var all []runs
	for _, s := range []state{{}, {b.callCount(b.pending), false}, {b.callCount(b.delivered), true}} {
		r, err := b.restart(s, b.roundCount(5), false)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	ready := column{"time to ready", medianOf(func(s sample) time.Duration { return s.Wall }, short), ""}
	cpu := column{"CPU", medianOf(func(s sample) time.Duration { return s.CPU }, short), ""}
	idle := column{"idle RSS", medianOf(func(s sample) int64 { return s.RSS }, megabytes), ""}
	b.table("Collector startup after kill -9", all, ready, cpu, idle, memoryColumn)
	b.measured["load/start-empty"], b.measured["load/start-million"] = ready.cell(all[0].samples, nil), ready.cell(all[1].samples, nil)
	b.measured["idle-memory"], b.measured["compare/memory/collector"] = idle.cell(all[0].samples, nil), idle.cell(all[0].samples, nil)
	b.measured["load/kept-cpu"], b.measured["load/kept-memory"] = cpu.cell(all[2].samples, nil), idle.cell(all[2].samples, nil)
	b.measured["load/kept-peak"] = memoryColumn.cell(all[2].samples, nil)
	return nil
}

func (b *bench) verify() error {
	var all []runs
	for _, s := range []state{{b.callCount(b.pending), false}, {b.callCount(b.delivered), true}} {
		r, err := b.restart(s, b.roundCount(1), true)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	b.table("Verification of the ledger", all, column{"duration", medianOf(func(s sample) time.Duration { return s.Wall }, short), ""},
		column{"idle RSS", medianOf(func(s sample) int64 { return s.RSS }, megabytes), ""}, memoryColumn)
	return nil
}

// restart fills a data directory and restarts the collector in each round. It measures the start.
// If verify is set, it measures the verification of the ledger instead. If there is a directory for
// profiles, restart writes the allocations of the last start: the collector serves profiles only when it
// is ready, so there is no CPU profile.
func (b *bench) restart(st state, rounds int, verify bool) (all runs, err error) {
	all.name = st.String()
	r, err := newReceiver()
	if err != nil {
		return all, err
	}
	defer r.refuse()
	if !st.delivered {
		r.hang()
	}
	config := "destinations:\n" + hook("hook", r.url())
	c, err := b.collector(config, false)
	if err != nil {
		return all, err
	}
	defer func() { c.Kill() }()
	if st.calls > 0 {
		fill := b.calls.load(c.URL)
		fill.Calls = int64(st.calls)
		if _, err := b.sendFor(fill, 10*time.Minute); err != nil {
			return all, err
		}
	}
	if st.delivered {
		if err := b.awaitDelivered(c); err != nil {
			return all, err
		}
	}
	for range rounds {
		c.Kill()
		next, err := b.collector(config, true)
		if err != nil {
			return all, err
		}
		c = next
		s, err := b.rest(c)
		if err == nil && b.profile != "" {
			err = download(c.URL+"/debug/pprof/allocs", filepath.Join(b.profile, strings.ReplaceAll(st.String(), " ", "-")+".allocs"))
		}
		if err == nil && verify {
			err = b.prove(c, st, &s)
		}
		if err != nil {
			return all, err
		}
		all.samples = append(all.samples, s)
	}
	return all, nil
}

// rest measures a collector that has been idle for five seconds after its start.
func (b *bench) rest(c *harness.Collector) (s sample, err error) {
	if err := wait(b.ctx, 5*time.Second); err != nil {
		return s, err
	}
	usage, err := c.Usage()
	s.Wall, s.CPU, s.RSS, s.PeakRSS = c.Startup, c.StartupCPU, usage.RSS, usage.PeakRSS
	return s, err
}

// prove measures the verification of the ledger.
func (b *bench) prove(c *harness.Collector, st state, s *sample) error {
	if err := c.ResetPeakRSS(); err != nil {
		return err
	}
	begin := time.Now()
	l, err := b.readLedger(c, "?verify=true")
	if err != nil {
		return err
	}
	s.Wall = time.Since(begin)
	if l.Accepted < int64(st.calls) || !l.Holds {
		return fmt.Errorf("%d calls were accepted, but the ledger contains %+v", st.calls, l)
	}
	usage, err := c.Usage()
	s.PeakRSS = usage.PeakRSS
	return err
}

// churn measures the memory and the disk space of a collector that delivers calls as soon as
// they arrive.
func (b *bench) churn() error {
	d := b.runTime(30 * time.Minute)
	r, err := newReceiver()
	if err != nil {
		return err
	}
	defer r.refuse()
	c, err := b.collector("limits: {queue: 64MB}\ndestinations:\n"+hook("hook", r.url()), false)
	if err != nil {
		return err
	}
	defer c.Kill()
	calls := callShape{senders: 4, batch: 20, size: b.calls.size}.load(c.URL)
	calls.Rate = b.rates(2000)[0]
	ended := make(chan error, 1)
	go func() {
		_, err := b.sendFor(calls, d)
		ended <- err
	}()
	fmt.Printf("\nMemory and disk at %d calls/s, queue of 64 MB\n\n| after | delivered | RSS | heap | data |\n|--:|--:|--:|--:|--:|\n", calls.Rate)
	begin := time.Now()
	ticker := time.NewTicker(d / 30)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case err := <-ended:
			return err
		}
		l, err := b.readLedger(c, "")
		if err != nil {
			return err
		}
		usage, err := c.Usage()
		if err != nil {
			return err
		}
		metrics, err := c.Metrics(b.ctx)
		if err != nil {
			return err
		}
		disk, err := sizeOf(filepath.Join(b.dir, "data"))
		if err != nil {
			return err
		}
		after := time.Since(begin).Round(time.Second)
		fmt.Printf("| %v | %s | %s | %s | %s |\n", after, grouped(l.Delivered), megabytes(usage.RSS), megabytes(int64(metrics["go_memstats_heap_inuse_bytes"])), megabytes(disk))
		minutes := fmt.Sprintf("-%.0fm", after.Minutes())
		b.measured["load/memory"+minutes], b.measured["load/disk"+minutes] = megabytes(usage.RSS), megabytes(disk)
	}
}

// sizeOf returns the total size of the files in a directory. Files may disappear while it runs.
func sizeOf(dir string) (bytes int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && !entry.IsDir() {
			if info, err = entry.Info(); err == nil {
				bytes += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return bytes, err
}
