package store

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Store is the streams of a journal as it appends to them and reads them: on a server
// within the process, or on a cluster.
type Store struct {
	Names  record.Names
	Log    *slog.Logger
	Shared bool   // on a cluster
	Writer uint64 // names this process among those that share the streams

	JS     Streams
	In     Publisher // of the calls that come in, so that what is read does not wait behind them
	Status health
	Link   atomic.Pointer[link] // replaced when a connection is made again
	Synced func() error         // says whether what was answered for is on the disk; nil where the answer says so

	Ctx    context.Context // ends when the journal is closed
	Cancel context.CancelCauseFunc
	Work   goroutines // goroutines that end with ctx

	Changes atomic.Uint64 // counts what this process published and removed, once it was answered or given up

	messages atomic.Uint64 // counts what was published, to name it
}

// New returns the store of the journal of a name. Its streams are yet to be set.
func New(name string, isShared bool, log *slog.Logger) *Store {
	s := &Store{Names: record.Names{Prefix: name}, Shared: isShared, Log: log, Writer: RandomNumber()}
	s.Ctx, s.Cancel = context.WithCancelCause(context.Background())
	s.Link.Store(NewLink())
	return s
}

// RandomNumber names this process among the writers.
func RandomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// ProveSynced returns nil if what the server has answered for until now is on the disk.
func (s *Store) ProveSynced() error {
	if s.Synced == nil {
		return nil
	}
	return s.Synced()
}

// AwaitStore waits until the store can be asked again. It fails when the journal is
// closed.
func (s *Store) AwaitStore() error {
	s.Status.await(s.Ctx)
	return pause.For(s.Ctx, storePause)
}

// Measure tells what a stream has.
func (s *Store) Measure(ctx context.Context, kind string) (jetstream.StreamState, error) {
	info, err := s.JS.Info(ctx, s.Names.Stream(kind))
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("journal: measuring %s: %w", kind, err)
	}
	return info.State, nil
}

// A link stands for the connections as they are, until one is made again.
type link struct {
	Lost context.Context
	End  context.CancelFunc // ends Lost
}

// NewLink returns the link of connections that are there.
func NewLink() *link {
	l := &link{}
	l.Lost, l.End = context.WithCancel(context.Background())
	return l
}
