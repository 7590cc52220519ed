package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

const (
	// checkpointPiece is the maximum size of each message of a checkpoint.
	checkpointPiece = 64 << 10
	// A checkpoint is stored after checkpointAfter messages, or after checkpointEvery. The next
	// start needs about 50 ms to read checkpointAfter messages.
	checkpointAfter = 5000
	checkpointEvery = 30 * time.Second
	// checkpointTTL is the lifetime of a checkpoint, which removes the checkpoints of processes
	// that no longer exist.
	checkpointTTL = 24 * time.Hour
)

// A checkpointer stores checkpoints alternately in two slots, so one slot is always complete.
type checkpointer struct {
	slot            int
	calls, outcomes uint64 // position of the last checkpoint
	at              time.Time
}

// checkpoint stores the ledger if it has changed enough, or if now is true.
func (j *Journal) checkpoint(ctx context.Context, c *checkpointer, now bool) error {
	a := j.ledger
	calls, outcomes := a.Position()
	moved := calls + outcomes - c.calls - c.outcomes
	if moved == 0 || !now && moved < checkpointAfter && time.Since(c.at) < checkpointEvery {
		return nil
	}
	if err := j.storeCheckpoint(ctx, c.slot, a.Encode()); err != nil {
		return fmt.Errorf("journal: storing the ledger: %w", err)
	}
	*c = checkpointer{slot: 1 - c.slot, calls: calls, outcomes: outcomes, at: time.Now()}
	return nil
}

func (j *Journal) storeCheckpoint(ctx context.Context, slot int, data []byte) error {
	data = s2.Encode(nil, data)
	id := fmt.Sprintf("%x", store.RandomNumber())
	pieces := slices.Collect(slices.Chunk(data, checkpointPiece))
	for i, piece := range pieces {
		m := nats.NewMsg(j.Names.Subject("s", "account", strconv.FormatUint(j.Writer, 16), strconv.Itoa(slot), strconv.Itoa(i)))
		m.Data = piece
		m.Header.Set("Checkpoint", id)
		m.Header.Set("Pieces", strconv.Itoa(len(pieces)))
		m.Header.Set("Nats-TTL", checkpointTTL.String())
		if _, err := j.Publish(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// loadCheckpoints returns all complete checkpoints and the snapshot.
func (j *Journal) loadCheckpoints(ctx context.Context) ([]*ledger.Ledger, error) {
	type stored struct {
		pieces [][]byte
		id     string
		left   int
	}
	slots := map[string]*stored{}
	t := j.Tail(record.StreamState, 1, func(m *jetstream.RawStreamMsg) error {
		at := strings.LastIndexByte(m.Subject, '.')
		piece, err := strconv.Atoi(m.Subject[at+1:])
		n, err2 := strconv.Atoi(m.Header.Get("Pieces"))
		if err != nil || err2 != nil || n < 1 || n > 1<<16 {
			return nil //nolint:nilerr // the message is not part of a checkpoint
		}
		id := m.Header.Get("Checkpoint")
		s := slots[m.Subject[:at]]
		if s == nil || s.id != id {
			s = &stored{pieces: make([][]byte, n), id: id, left: n}
			slots[m.Subject[:at]] = s
		}
		if piece < n && s.pieces[piece] == nil {
			s.pieces[piece] = m.Data
			s.left--
		}
		return nil
	})
	t.Subjects = []string{j.Names.Subject("s", "account", ">")}
	if err := t.Scan(ctx); err != nil {
		return nil, err
	}
	var ledgers []*ledger.Ledger
	if j.previous.snapshot != nil {
		ledgers = append(ledgers, j.previous.snapshot.ledger)
	}
	for slot, s := range slots {
		if s.left > 0 {
			continue // incomplete, because its process ended while writing it
		}
		a, err := ledger.Decompress(slices.Concat(s.pieces...))
		if err != nil {
			j.Log.Warn("skipping an unreadable checkpoint; more messages are read instead", "slot", slot, "error", err)
			continue
		}
		ledgers = append(ledgers, a)
	}
	return ledgers, nil
}

// loadBase returns the base and its sequence number in STATE. The base is the ledger as of
// the last message that was removed from CALLS. After an accepted loss, it also contains later
// messages. If there is no base, loadBase returns an empty ledger and 0.
func (j *Journal) loadBase(ctx context.Context) (*ledger.Ledger, uint64, error) {
	m, err := j.JS.Last(ctx, j.Names.Stream(record.StreamState), j.Names.Subject("s", "base"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ledger.New(), 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("journal: reading the stored ledger: %w", err)
	}
	base, err := ledger.Decompress(m.Data)
	if err != nil {
		return nil, m.Sequence, record.Damaged("the stored base of the ledger cannot be read (%v). %s", err, j.options.repairHint())
	}
	return base, m.Sequence, nil
}

// storeBase replaces the base that is stored in message before. It fails if another process has
// already replaced that base. In a data directory, it also stores a snapshot.
func (j *Journal) storeBase(ctx context.Context, base *ledger.Ledger, before uint64) error {
	m := nats.NewMsg(j.Names.Subject("s", "base"))
	raw := base.Encode()
	m.Data = s2.Encode(nil, raw)
	store.ExpectLast(m, before)
	if _, err := j.Publish(ctx, m); err != nil {
		return err
	}
	j.local.setBase(raw)
	return j.snapshot(ctx, true)
}

func (j *Journal) removeCheckpoints(ctx context.Context) error {
	if err := j.removeSnapshots(); err != nil {
		return err
	}
	return j.JS.Purge(ctx, j.Names.Stream(record.StreamState), j.Names.Subject("s", "account", ">"), 0)
}
