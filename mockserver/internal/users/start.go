package users

import (
	"context"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// New returns a service that does nothing before Start.
func New(config Config) *Service {
	if config.BatchCalls == 0 {
		config.BatchCalls = defaultBatchCalls
	}
	u := &Service{config: config}
	u.stopping, u.drain = context.WithCancel(context.Background())
	u.syncs, u.deletions = newSyncs(u), newDeletions(u)
	return u
}

// Start takes up what earlier processes left.
func (u *Service) Start() {
	u.syncs.start()
	u.deletions.start()
}

// Drain lets nothing more begin. Stop follows.
func (u *Service) Drain() { u.drain() }

// Stop ends the work, without waiting for what is under way at others. More calls
// may be delivered until then; EndOutcomes follows once none are.
func (u *Service) Stop() {
	u.drain()
	u.syncs.work.stop()
	u.deletions.work.stop()
}

// EndOutcomes stores the outcomes of notifications that have come since. It is called
// once, after Stop and when no more deliveries end.
func (u *Service) EndOutcomes() { u.deletions.endOutcomes() }

// Observe implements event.Observer: it takes the outcomes of notifications.
func (u *Service) Observe(event event.Event) { u.deletions.observe(event) }

func newSyncs(u *Service) *syncs {
	s := &syncs{service: u, state: u.config.State, sorts: make(chan struct{}, sortsAtOnce), sent: map[string]int64{}}
	s.work = newWorkers(u.stopping, u.config.Logger, s.step, s.waiting)
	return s
}

// start takes up what earlier processes left.
func (s *syncs) start() {
	started := time.Now()
	s.work.start(func(ctx context.Context) error { return s.clean(ctx, started) })
}

func newDeletions(u *Service) *deletions {
	d := &deletions{
		service: u, state: u.config.State, wake: make(chan struct{}, 1), done: make(chan struct{}),
		outcomes: map[outcomeID]tracking.Ended{}, settled: map[string]time.Time{}, suspects: map[string]time.Time{},
	}
	d.work = newWorkers(u.stopping, u.config.Logger, d.step, d.waiting)
	return d
}

func (d *deletions) start() {
	d.following.Go(d.follow)
	d.work.start(func(context.Context) error { return nil })
}
