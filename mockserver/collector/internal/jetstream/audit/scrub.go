package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// In a data directory, the scrubber reads the files and checks the checksum of each record. It
// bypasses the page cache if possible. On a cluster, it reads the copies of all servers and compares
// them. A server may read its copy from a cache.

const (
	// scrubRate limits the rate in bytes per second. scrubPause is the pause between rounds.
	scrubRate  = 4 << 20
	scrubPause = time.Minute
	// scrubDoubt is the pause before apparent damage is checked again, because the server may
	// have been writing the data.
	scrubDoubt = 2 * time.Second
	// scrubSpan is the number of messages that are compared at a time.
	scrubSpan = 20_000
)

// A Scrubber searches stored data for corruption.
type Scrubber struct {
	store   *store.Store
	files   *datadir.Files // nil on a cluster
	streams []string       // names of all streams

	mu    sync.Mutex // guards state
	state journal.Scrub
}

// NewScrubber returns a scrubber for files. If files is nil, it scrubs the replicas of a cluster.
func NewScrubber(s *store.Store, files *datadir.Files, streams []string) *Scrubber {
	return &Scrubber{store: s, files: files, streams: streams}
}

// Health returns the results of the last round.
func (s *Scrubber) Health() journal.Scrub {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.state
	state.Damage = slices.Clone(state.Damage)
	return state
}

// finish completes a round. It returns the damage that the previous round did not find.
func (s *Scrubber) finish(damage []string) (fresh []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh = slices.DeleteFunc(slices.Clone(damage), func(d string) bool { return slices.Contains(s.state.Damage, d) })
	s.state.Damage, s.state.FinishedAt = damage, time.Now()
	s.state.Rounds++
	return fresh
}

// read counts n bytes, and waits as long as needed to stay below scrubRate.
func (s *Scrubber) read(ctx context.Context, n int) error {
	s.mu.Lock()
	s.state.Bytes += uint64(n)
	s.mu.Unlock()
	return pause.For(ctx, time.Duration(n)*time.Second/scrubRate)
}

// Run scrubs until the journal is closed.
func (s *Scrubber) Run() {
	for pause.For(s.store.Ctx, scrubPause) == nil {
		if err := s.Scrub(s.store.Ctx); err != nil && s.store.Ctx.Err() == nil {
			s.store.Log.Debug("reading all stored data failed; will retry", "error", err)
		}
	}
}

// Scrub runs one round.
func (s *Scrubber) Scrub(ctx context.Context) error {
	if _, err := s.store.Status.Writable(); err != nil {
		return err
	}
	read := s.scrubFiles
	if s.store.Shared {
		read = s.scrubReplicas
	}
	damage, err := read(ctx)
	if err != nil {
		return err
	}
	for _, d := range s.finish(damage) {
		s.store.Log.Error("stored data is corrupt; the disk may be failing. Deliver the pending calls and replace the disk: see Corruption in docs/operating.md", "damage", d)
	}
	return nil
}

// scrubFiles checks the blocks of all streams. It checks a damaged block a second time, because the
// server may have been writing it.
func (s *Scrubber) scrubFiles(ctx context.Context) (damage []string, err error) {
	read := func(bytes int) error { return s.read(ctx, bytes) }
	var doubtful []blockID
	for _, stream := range s.files.StreamDirs() {
		blocks, err := datadir.BlocksOf(stream)
		if err != nil {
			return nil, err
		}
		for _, block := range blocks {
			if found := datadir.ScrubBlock(stream, block, read); len(found) > 0 {
				damage, doubtful = append(damage, found...), append(doubtful, blockID{stream, block})
			}
		}
	}
	if len(damage) == 0 {
		return nil, ctx.Err()
	}
	if err := pause.For(ctx, scrubDoubt); err != nil {
		return nil, err
	}
	var again []string
	for _, b := range doubtful {
		again = append(again, datadir.ScrubBlock(b.stream, b.block, read)...)
	}
	return slices.DeleteFunc(damage, func(d string) bool { return !slices.Contains(again, d) }), ctx.Err()
}

// A blockID identifies a block in a stream's directory.
type blockID struct {
	stream string
	block  int
}

// scrubReplicas compares the replicas of the streams, except RETRY. A lock ensures that only one
// collector does this at a time.
func (s *Scrubber) scrubReplicas(ctx context.Context) (damage []string, err error) {
	lock := store.NewLock(s.store, "scrub")
	if err := lock.Take(ctx); err != nil {
		return nil, fmt.Errorf("another collector is reading the stored data, or the cluster does not respond: %w", err)
	}
	defer lock.Remove(ctx)
	for _, name := range s.streams {
		if name == s.store.Names.Stream(record.StreamRetry) {
			continue // messages of RETRY are deleted on delivery and can be restored
		}
		found, err := s.scrubStream(ctx, name, lock)
		if err != nil {
			return nil, err
		}
		damage = append(damage, found...)
	}
	return damage, nil
}

// scrubStream compares the replicas of one stream.
func (s *Scrubber) scrubStream(ctx context.Context, name string, lock *store.Lock) (damage []string, err error) {
	info, err := s.store.JS.Info(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Cluster == nil {
		return nil, nil
	}
	peers := []string{info.Cluster.Leader}
	for _, r := range info.Cluster.Replicas {
		if r.Current && !r.Offline { // a server that lags behind does not have all messages
			peers = append(peers, r.Name)
		}
	}
	bad := map[string][]uint64{} // sequence numbers of missing or different messages, keyed by server
	for from := info.State.FirstSeq; from <= info.State.LastSeq && len(peers) > 1; from += scrubSpan {
		to := min(from+scrubSpan-1, info.State.LastSeq)
		found, err := s.compareCopies(ctx, lock, name, peers, from, to)
		if err == nil && len(found) > 0 { // messages may have been added or removed
			if err = pause.For(ctx, scrubDoubt); err == nil {
				var again map[copyOf]bool
				again, err = s.compareCopies(ctx, lock, name, peers, from, to)
				maps.DeleteFunc(found, func(c copyOf, _ bool) bool { return !again[c] })
			}
		}
		if err != nil {
			return nil, err
		}
		for c := range found {
			bad[c.server] = append(bad[c.server], c.seq)
		}
	}
	for _, server := range slices.Sorted(maps.Keys(bad)) {
		damage = append(damage, fmt.Sprintf("server %s: %d messages of %s, from %d to %d, are missing or differ from the other servers",
			server, len(bad[server]), name, slices.Min(bad[server]), slices.Max(bad[server])))
	}
	return damage, nil
}

// A copyOf identifies a server's copy of a message.
type copyOf struct {
	server string
	seq    uint64
}

// compareCopies returns the copies that differ from the majority.
func (s *Scrubber) compareCopies(ctx context.Context, lock *store.Lock, stream string, peers []string, from, to uint64) (map[copyOf]bool, error) {
	copies := map[uint64]map[string]uint64{} // checksums, keyed by sequence number and server
	for _, peer := range peers {
		err := s.readCopies(ctx, lock, stream, peer, from, to, func(seq, sum uint64) {
			if copies[seq] == nil {
				copies[seq] = map[string]uint64{}
			}
			copies[seq][peer] = sum
		})
		if err != nil {
			return nil, err
		}
	}
	odd := map[copyOf]bool{}
	for seq, have := range copies {
		agree := map[uint64]int{}
		for _, sum := range have {
			agree[sum]++
		}
		for _, peer := range peers {
			if sum, ok := have[peer]; !ok || 2*agree[sum] <= len(peers) {
				odd[copyOf{peer, seq}] = true
			}
		}
	}
	return odd, nil
}

// readCopies calls f with the sequence number and checksum of each message of one server.
func (s *Scrubber) readCopies(ctx context.Context, lock *store.Lock, stream, server string, from, to uint64, f func(seq, sum uint64)) error {
	t := s.store.Tail("", from, func(m *jetstream.RawStreamMsg) error {
		f(m.Sequence, sumOf(m))
		return errors.Join(s.read(ctx, len(m.Data)), lock.Renew(ctx))
	})
	t.Stream, t.Server, t.Batch, t.Last = stream, server, 8, to
	if err := t.Scan(ctx); !errors.Is(err, record.ErrDamaged) { // unreadable messages count as missing
		return err
	}
	return nil
}

// sumOf returns a checksum of a message.
func sumOf(m *jetstream.RawStreamMsg) uint64 {
	h := fnv.New64a()
	write := func(text string) {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(text))))
		_, _ = io.WriteString(h, text)
	}
	write(m.Subject)
	for _, key := range slices.Sorted(maps.Keys(m.Header)) {
		write(key)
		write(strings.Join(m.Header[key], "\n"))
	}
	_, _ = h.Write(m.Data)
	return h.Sum64()
}
