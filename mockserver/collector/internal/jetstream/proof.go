package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/audit"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/ledger"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// Verify reads all that is stored and proves or refutes, for every destination,
// that accepted = delivered + failed + filtered + pending + lost, that none of them
// is negative, and that the ledger says the same. Calls may be accepted and delivered meanwhile. It takes a few
// seconds for a million stored messages, and for each destination 12 bytes of memory
// for a message that was not tried and about 50 for what waits for a retry.
func (j *Journal) Verify(ctx context.Context) ([]journal.Verification, error) {
	if err := j.open(); err != nil {
		return nil, err
	}
	j.trimmer.running.Lock() // what is read must stay
	defer j.trimmer.running.Unlock()
	var all []journal.Verification
	err := j.Patiently(ctx, func(ctx context.Context) (err error) {
		all, err = j.verifier().Verify(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("journal: verifying: %w", err)
	}
	return all, nil
}

func (j *Journal) verifier() *audit.Verifier {
	return &audit.Verifier{Store: j.Store, Account: j.ledger, From: j, Looks: audit.Looks}
}

// ToVerify returns what the account says now. What a consumer takes for acknowledged
// is asked first: each of its messages must then have outcomes that the account has
// read.
func (j *Journal) ToVerify(ctx context.Context) (*ledger.Claim, error) {
	acknowledged := map[string]uint64{}
	for _, name := range j.ledger.Destinations() {
		floor, err := j.ackFloor(ctx, name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) { // it is made when the destination is attached
			return nil, err
		}
		acknowledged[name] = floor
	}
	calls, err := j.Measure(ctx, record.StreamCalls) // another process may have stored more than this one has read
	if err != nil {
		return nil, err
	}
	outcomes, err := j.Measure(ctx, record.StreamOutcomes)
	if err != nil {
		return nil, err
	}
	if err := j.ledger.ReachedBoth(ctx, max(calls.LastSeq, j.seen.acked.Load()), outcomes.LastSeq); err != nil {
		return nil, err
	}
	return j.ledger.Verified(acknowledged), nil
}
