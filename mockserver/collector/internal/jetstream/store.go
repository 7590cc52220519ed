package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// A store is the streams of a journal as it appends to them and reads them: on a server
// within the process, or on a cluster.
type store struct {
	names  record.Names
	log    *slog.Logger
	shared bool   // on a cluster
	writer uint64 // names this process among those that share the streams

	in, nc *nats.Conn
	js     jetstream.JetStream
	health health
	link   atomic.Pointer[link] // replaced when a connection is made again
	synced func() error         // says whether what was answered for is on the disk; nil where the answer says so

	ctx    context.Context // ends when the journal is closed
	cancel context.CancelCauseFunc
	work   goroutines // goroutines that end with ctx

	messages atomic.Uint64 // counts what was published, to name it
}

func newStore(name string, shared bool, log *slog.Logger) *store {
	s := &store{names: record.Names{Prefix: name}, shared: shared, log: log, writer: randomNumber()}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.link.Store(newLink())
	return s
}

// randomNumber names this process among the writers.
func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// proveSynced returns nil if what the server has answered for until now is on the disk.
func (s *store) proveSynced() error {
	if s.synced == nil {
		return nil
	}
	return s.synced()
}

// awaitStore waits until the store can be asked again. It fails when the journal is
// closed.
func (s *store) awaitStore() error {
	s.health.await(s.ctx)
	return sleep(s.ctx, storePause)
}

func (s *store) tail(kind string, next uint64, handle func(*nats.Msg, uint64) error) *tail {
	t := &tail{
		link: &s.link, nc: s.nc, js: s.js, stream: s.names.Stream(kind), next: next, batch: 1000, heartbeat: 5 * time.Second, handle: handle,
		trouble: s.tellTrouble(kind),
	}
	if s.shared {
		t.shared, t.heartbeat = true, time.Second // the server that has the consumer may die alone
	}
	return t
}

// tellTrouble returns a function that logs, for trouble of a tail: as a warning now and
// then if it lasts and is not known.
func (s *store) tellTrouble(kind string) func(error, time.Duration) {
	var told time.Duration
	return func(err error, since time.Duration) {
		told = min(told, since) // it may be another trouble
		level := slog.LevelDebug
		if _, down := s.health.up(); down == nil && since-told >= tellEvery {
			told, level = since, slog.LevelWarn
		}
		s.log.Log(context.Background(), level, "a stream cannot be read; it is tried again", "stream", kind, "for", since.Round(time.Second), "error", err)
	}
}
