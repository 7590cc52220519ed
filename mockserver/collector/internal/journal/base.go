package journal

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// loadBase returns the account of what has been removed from CALLS and OUTCOMES;
// an empty one where nothing was.
func (j *Journal) loadBase(ctx context.Context) (*account, error) {
	state, err := j.js.Stream(ctx, j.names.stream(streamState))
	if err != nil {
		return nil, err
	}
	m, err := state.GetLastMsgForSubject(ctx, j.names.subject("s", "base"))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return newAccount(), nil
	}
	if err != nil {
		return nil, err
	}
	base, err := decompressAccount(m.Data)
	if err != nil {
		return nil, damaged("the account of what was removed cannot be read (%v). %s", err, j.howToGoOn())
	}
	return base, nil
}
