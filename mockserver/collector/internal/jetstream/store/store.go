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

// A Store reads and writes the streams of a journal, on an embedded server or on a cluster.
type Store struct {
	Names  record.Names
	Log    *slog.Logger
	Shared bool   // whether the store is on a cluster, which other processes may also use
	Writer uint64 // identifies this process among the writers

	JS     Streams
	In     Publisher // publisher for incoming calls; has a separate connection, so that reads do not wait behind calls
	Status health
	Link   atomic.Pointer[link] // replaced after a reconnect
	Synced func() error         // reports whether acknowledged messages are on the disk; nil if the acknowledgement guarantees it

	Ctx    context.Context // ends when the journal is closed
	Cancel context.CancelCauseFunc
	Work   goroutines // goroutines that return when Ctx ends

	Changes atomic.Uint64 // number of messages published and removed by this process, counted after the response or the timeout

	messages atomic.Uint64 // number of published messages, used for message IDs
}

// New returns a store without streams. name is the prefix of all stream names.
func New(name string, isShared bool, log *slog.Logger) *Store {
	s := &Store{Names: record.Names{Prefix: name}, Shared: isShared, Log: log, Writer: RandomNumber()}
	s.Ctx, s.Cancel = context.WithCancelCause(context.Background())
	s.Link.Store(NewLink())
	return s
}

// RandomNumber returns a random number that identifies a writer.
func RandomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

// CheckSynced returns nil if all acknowledged messages are on the disk.
func (s *Store) CheckSynced() error {
	if s.Synced == nil {
		return nil
	}
	return s.Synced()
}

// untilClosed returns a context that ends with ctx, or when the journal is closed.
func (s *Store) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(s.Ctx, func() { cancel(context.Cause(s.Ctx)) })
	return ctx, func() { unlink(); cancel(nil) }
}

// AwaitStore waits until a request can be retried. It returns an error when the journal is closed.
func (s *Store) AwaitStore() error {
	s.Status.await(s.Ctx)
	return pause.For(s.Ctx, storePause)
}

// Measure returns the state of a stream.
func (s *Store) Measure(ctx context.Context, kind string) (jetstream.StreamState, error) {
	info, err := s.JS.Info(ctx, s.Names.Stream(kind))
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("journal: reading the state of %s: %w", kind, err)
	}
	return info.State, nil
}

// A link represents the current connections. It is replaced after a reconnect.
type link struct {
	Lost context.Context
	End  context.CancelFunc // cancels Lost
}

// NewLink returns the link of new connections.
func NewLink() *link {
	l := &link{}
	l.Lost, l.End = context.WithCancel(context.Background())
	return l
}
