package jetstream

import (
	"context"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
)

// find learns whether a message of CALLS is stored whose answer did not come, and
// returns its number, or cause. It takes as long as the store cannot be asked. before
// is a number that was used before the message was sent.
func (j *Journal) find(m *nats.Msg, before uint64, cause error) (uint64, error) {
	for {
		seq, err := j.lookFor(m, before)
		switch {
		case err == nil && seq == 0:
			return 0, cause
		case err == nil:
			return seq, nil
		}
		j.Log.Debug("whether calls are stored is not known yet", "error", err)
		if err := j.AwaitStore(); err != nil {
			return 0, err
		}
	}
}

// lookFor reads what was stored after a number. It returns 0 if the message is not
// there, and will not come.
func (j *Journal) lookFor(m *nats.Msg, before uint64) (found uint64, err error) {
	up, err := j.Status.Writable()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(j.Ctx, store.RequestPatience)
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	if j.options.NATS != nil {
		if err := j.overtake(ctx, m); err != nil {
			return 0, err
		}
	}
	t := j.Tail(record.StreamCalls, before+1, func(stored *nats.Msg, seq uint64) error {
		if stored.Subject == m.Subject && stored.Header.Get(record.HeaderIDs) == m.Header.Get(record.HeaderIDs) {
			found = seq
			return store.ErrEnough
		}
		return nil
	})
	t.HeadersOnly = true
	if err := t.Scan(ctx); err != nil {
		return 0, err
	}
	return found, j.ProveSynced()
}

// overtake has the leader of CALLS answer behind a message that may be on its way to
// it: it is sent another of the same name, which it does not store.
func (j *Journal) overtake(ctx context.Context, m *nats.Msg) error {
	probe := nats.NewMsg(m.Subject)
	probe.Header.Set(nats.MsgIdHdr, m.Header.Get(nats.MsgIdHdr))
	probe.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(1<<62, 10))
	_, err := j.Try(ctx, j.In, probe)
	if store.IsWrongSequence(err) {
		return nil
	}
	return err
}
