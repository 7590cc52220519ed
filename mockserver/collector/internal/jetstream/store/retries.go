package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// listTimeout limits the time for listing RETRY, which takes several requests.
const listTimeout = 30 * time.Second

// EachRetry calls f with the number of each retry in RETRY and the token of its destination. It may
// omit retries that are published or removed at the same time.
func (s *Store) EachRetry(ctx context.Context, f func(destination, number string)) error {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	subjects, err := s.JS.Subjects(ctx, s.Names.Stream(record.StreamRetry), s.Names.Subject(">"))
	if err != nil {
		return fmt.Errorf("listing RETRY: %w", err)
	}
	for subject := range subjects {
		_, rest := s.Names.Split(subject)
		destination, number, _ := strings.Cut(rest, ".")
		f(destination, number)
	}
	return nil
}

// HasRetry reports whether RETRY contains a retry of the entry with this attempt number or a higher
// one.
func (s *Store) HasRetry(ctx context.Context, destination string, ref record.Ref, attempt int) (bool, error) {
	for _, kind := range []string{"at", "due"} {
		m, err := s.JS.Last(ctx, s.Names.Stream(record.StreamRetry), s.Names.Subject(kind, record.Token(destination), strconv.FormatUint(ref.Number(), 10)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return false, err
		}
		if stored, err := record.DecodeRetry(m.Data); err == nil && stored.Attempt >= attempt {
			return true, nil
		}
	}
	return false, nil
}
