package jetstream_test

import (
	"fmt"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// An operation changes the world. To add an operation, add a line to the table. The operation must
// take its decisions from world.random.
type operation struct {
	weight int
	do     func(*world)
}

var operations = []operation{
	{30, func(w *world) { w.pick().send(1 + w.random.IntN(12)) }},
	{10, func(w *world) { w.receiver().change(modes[w.random.IntN(len(modes))]) }},
	{2, func(w *world) { w.pick().restart() }},
	{3, (*world).killOne},
	{4, (*world).restart},
	{2, (*world).stopOne},
	{5, (*world).startOne},
	{4, (*world).replay},
	{2, (*world).pause},
	{2, (*world).resume},
	{2, (*world).stall},
	{2, (*world).changeLeader},
	{2, (*world).partition},
	{4, (*world).sync},
	{2, (*world).damage},
	{1, (*world).deleteUsers},
	{4, (*world).changeExtra},
	{2, (*world).changePlan},
	{1, (*world).fillDisk},
	{1, (*world).stepClock},
	{2, func(w *world) { w.sleep(time.Duration(w.random.IntN(120)) * time.Second) }},
}

// operate executes an operation.
func (w *world) operate() {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	n := w.random.IntN(total)
	for i, o := range operations {
		if n -= o.weight; n < 0 {
			w.executed = append(w.executed, i)
			o.do(w)
			return
		}
	}
}

func (w *world) pick() *app      { return w.apps[w.random.IntN(len(w.apps))] }
func (w *world) one() *collector { return w.collectors[w.random.IntN(len(w.collectors))] }
func (w *world) destination() string {
	return w.settings.Destinations[w.random.IntN(len(w.settings.Destinations))].Name
}
func (w *world) receiver() *receiver { return w.receivers[w.destination()] }

// background runs an operation on a running collector concurrently, because it may take long.
func (w *world) background(what string, do func(*instance)) {
	p := w.one().process
	if p == nil {
		return
	}
	w.note("%s: %s", p.name, what)
	w.tasks.Go(func() {
		do(p)
		w.note("%s: %s ends", p.name, what)
	})
}

func (w *world) killOne() { w.one().kill() }

// restart kills a collector and starts it again.
func (w *world) restart() {
	c := w.one()
	c.kill()
	w.sleep(time.Duration(w.random.IntN(3000)) * time.Millisecond)
	if c.process == nil {
		c.start()
	}
}

func (w *world) stopOne() { w.one().stop() }
func (w *world) startOne() {
	if c := w.one(); c.process == nil {
		c.start()
	}
}

func (w *world) replay() {
	destination := w.destination()
	state := []tracking.State{tracking.StateFailed, tracking.StateFailed, tracking.StateFiltered, tracking.StateDelivered}[w.random.IntN(4)]
	w.background(fmt.Sprintf("replay of %v calls of %s", state, destination), func(p *instance) {
		if _, err := p.engine.Replay(p.t.Context(), destination, engine.Selection{State: state}); err != nil { // faults may prevent it
			w.note("%s: %v", p.name, err)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.repaired = time.Now().Add(repair)
		}
	})
}

func (w *world) pause() {
	d := w.receiver()
	paused := d.mayRun()
	w.background("pause of "+d.host, func(p *instance) {
		if p.engine.Pause(p.t.Context(), d.host) == nil {
			paused()
		}
	})
}

func (w *world) resume() {
	d := w.receiver()
	d.mayRun()
	d.count(&d.resuming, 1)
	w.background("resume of "+d.host, func(p *instance) {
		defer d.count(&d.resuming, -1)
		_ = p.engine.Resume(p.t.Context(), d.host)
	})
}

func (w *world) stall() {
	streams := w.server.Streams()
	stream := streams[w.random.IntN(len(streams))]
	d := time.Duration(w.random.IntN(8000)) * time.Millisecond
	w.note("%s stalls for %v", stream, d)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalls[stream] = time.Now().Add(d)
}

func (w *world) changeLeader() {
	streams := w.server.Streams()
	stream := streams[w.random.IntN(len(streams))]
	w.note("%s has a new leader", stream)
	w.server.ChangeLeader(stream)
}

// partition interrupts a collector's path to NATS for some time.
func (w *world) partition() {
	c := w.one()
	set, d := c.link.Cut, time.Duration(w.random.IntN(20_000))*time.Millisecond
	if w.random.IntN(2) == 0 {
		set = c.link.Silence
	}
	p := c.process
	if p == nil {
		return
	}
	w.note("%s is partitioned for %v", c.name, d)
	set(true)
	w.mu.Lock()
	c.blind = time.Now().Add(d)
	w.mu.Unlock()
	w.tasks.Go(func() {
		w.sleep(d)
		if w.mu.Lock(); !p.dead {
			defer set(false)
		}
		w.mu.Unlock()
	})
}

// stepClock changes the clock of the server. It is up to 30 s behind or ahead of the collectors.
func (w *world) stepClock() {
	ahead := time.Duration(w.random.IntN(60_000)-30_000) * time.Millisecond
	w.note("the server's clock is %v ahead", ahead)
	w.server.SetClock(ahead)
}

// fillDisk makes the server reject messages for some time.
func (w *world) fillDisk() {
	d := time.Duration(w.random.IntN(10_000)) * time.Millisecond
	w.note("the disk of the server is full for %v", d)
	w.server.Refuse(true)
	w.mu.Lock()
	w.fullUntil = later(w.fullUntil, time.Now().Add(d))
	w.mu.Unlock()
	w.tasks.Go(func() {
		w.sleep(d)
		w.mu.Lock()
		defer w.mu.Unlock()
		if !time.Now().Before(w.fullUntil) {
			w.server.Refuse(false)
		}
	})
}
