package users_test

import (
	"context"
	"errors"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// errKilled is the error of stores after a crash.
var errKilled = errors.New("killed")

// A process is one run of a collector. It can crash at any write.
type process struct {
	mu     sync.Mutex      // guards writes; locked during each write
	writes int             // remaining writes before the crash; a negative number means no crash
	after  bool            // if set, the last write succeeds, but the process gets an error
	alive  context.Context // canceled at the crash
	kill   context.CancelFunc
}

func newProcess(writes int, after bool) *process {
	p := &process{writes: writes, after: after}
	p.alive, p.kill = context.WithCancel(context.Background())
	return p
}

func (p *process) isDead() bool { return p.alive.Err() != nil }

// write executes a write, or crashes before or after it.
func (p *process) write(do func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDead() {
		return errKilled
	}
	if p.writes == 0 {
		p.kill()
		if p.after {
			_ = do()
		}
		return errKilled
	}
	p.writes--
	return do()
}

// mortalState is the state of a process that can crash.
type mortalState struct {
	state.Store
	*process
}

func (s mortalState) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	if s.isDead() {
		return nil, 0, errKilled
	}
	return s.Store.Get(ctx, key)
}

func (s mortalState) Put(ctx context.Context, key string, value []byte) error {
	return s.write(func() error { return s.Store.Put(ctx, key, value) })
}

func (s mortalState) Update(ctx context.Context, key string, value []byte, revision uint64) (n uint64, err error) {
	err = s.write(func() (err error) {
		n, err = s.Store.Update(ctx, key, value, revision)
		return err
	})
	return n, err
}

func (s mortalState) Delete(ctx context.Context, key string) error {
	return s.write(func() error { return s.Store.Delete(ctx, key) })
}

// mortalJournal is the journal of a process that can crash. After a crash, entries that were
// leased can be leased again.
type mortalJournal struct {
	journal.Journal
	*process
}

func (j mortalJournal) Append(ctx context.Context, b event.Batch) error {
	return j.write(func() error { return j.Journal.Append(ctx, b) })
}

func (j mortalJournal) Attach(ctx context.Context, d string, sources []string) (journal.Reader, error) {
	r, err := j.Journal.Attach(ctx, d, sources)
	return mortalReader{r, j.process}, err
}

func (j mortalJournal) Close() error { return nil }

type mortalReader struct {
	journal.Reader
	*process
}

func (r mortalReader) Next(ctx context.Context, want journal.Want) (journal.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.alive, cancel)()
	l, err := r.Reader.Next(ctx, want)
	dead := r.isDead() // checked first, because the process may crash during the call
	if dead && err == nil {
		l.Return()
	}
	switch {
	case dead:
		return nil, journal.ErrClosed
	case err != nil:
		return nil, err
	}
	return mortalLease{l, r.process}, nil
}

type mortalLease struct {
	journal.Lease
	*process
}

func (l mortalLease) Finish(ctx context.Context, r journal.Result) error {
	if l.isDead() {
		l.Return()
		return errKilled
	}
	return l.Lease.Finish(ctx, r)
}
