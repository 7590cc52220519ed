package engine

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// maxLinks is the maximum number of stored pairs of a destination. If there are more, arbitrary
// pairs are deleted.
const maxLinks = 100_000

// An aliasStore stores the pairs of user IDs that alias calls link at a destination. Each pair has
// one key, which contains hashes of the IDs.
type aliasStore struct {
	state  state.Store
	prefix string

	mu    sync.Mutex // guards known
	known map[[2]event.Key]struct{}
}

func newAliasStore(s state.Store, destination string) *aliasStore {
	name := event.KeyOf("", destination)
	return &aliasStore{state: s, prefix: "joined." + hex.EncodeToString(name[:]), known: map[[2]event.Key]struct{}{}}
}

// Load implements delivery.AliasStore.
func (s *aliasStore) Load(ctx context.Context) (pairs [][2]event.Key, err error) {
	keys, err := state.Keys(ctx, s.state, s.prefix)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		var pair [2]event.Key
		text, err := hex.DecodeString(key)
		if err != nil || len(text) != len(pair[0])+len(pair[1]) {
			return nil, fmt.Errorf("mockserver: the state has %q under %s, which is not a pair of user IDs", key, s.prefix)
		}
		copy(pair[1][:], text[copy(pair[0][:], text):])
		pairs = append(pairs, pair)
		s.known[pair] = struct{}{}
	}
	return pairs, nil
}

// Save implements delivery.AliasStore.
func (s *aliasStore) Save(ctx context.Context, pair [2]event.Key) error {
	s.mu.Lock()
	_, known := s.known[pair]
	var excess [][2]event.Key
	for other := range s.known {
		if known || len(s.known) < maxLinks {
			break
		}
		excess = append(excess, other)
		delete(s.known, other)
	}
	s.mu.Unlock()
	if known {
		return nil
	}
	for _, other := range excess {
		if err := s.state.Delete(ctx, s.key(other)); err != nil {
			return fmt.Errorf("mockserver: %w", err)
		}
	}
	if err := s.state.Put(ctx, s.key(pair), []byte{1}); err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[pair] = struct{}{}
	return nil
}

func (s *aliasStore) key(pair [2]event.Key) string {
	return s.prefix + "." + hex.EncodeToString(pair[0][:]) + hex.EncodeToString(pair[1][:])
}

// forget deletes all pairs.
func (s *aliasStore) forget(ctx context.Context) error { return s.state.Delete(ctx, s.prefix) }
