package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// loadBase returns the account of what has been removed from CALLS and OUTCOMES,
// an empty one where nothing was, and the message of STATE that has it.
func (j *Journal) loadBase(ctx context.Context) (*ledger.Ledger, uint64, error) {
	m, err := j.state.GetLastMsgForSubject(ctx, j.Names.Subject("s", "base"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ledger.New(), 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("journal: %w", err)
	}
	raw, err := s2.Decode(nil, m.Data)
	if err != nil {
		return nil, m.Sequence, record.Damaged("the account of what was removed cannot be read (%v). %s", err, j.howToGoOn())
	}
	base, err := ledger.Decode(raw)
	if err != nil {
		return nil, m.Sequence, record.Damaged("the account of what was removed cannot be read (%v). %s", err, j.howToGoOn())
	}
	j.snapshots.setBase(raw)
	return base, m.Sequence, nil
}

// storeBase stores it, if it is still the one of that message: another process
// may have been faster. It is stored twice before it returns.
func (j *Journal) storeBase(ctx context.Context, base *ledger.Ledger, before uint64) error {
	m := nats.NewMsg(j.Names.Subject("s", "base"))
	raw := base.Encode()
	m.Data = s2.Encode(nil, raw)
	m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(before, 10))
	if _, err := j.Publish(ctx, j.NC, m); err != nil || j.options.NATS != nil {
		return err
	}
	j.snapshots.setBase(raw)
	return j.snapshot(ctx, true)
}
