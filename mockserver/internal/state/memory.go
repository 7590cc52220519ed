package state

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// NewMemory returns a Store in memory.
func NewMemory() Store {
	return &memoryState{values: map[string]stateValue{}, watchers: map[string][]chan struct{}{}}
}

type memoryState struct {
	mu       sync.Mutex // guards the fields below
	values   map[string]stateValue
	revision uint64                     // last assigned revision
	watchers map[string][]chan struct{} // channels by key; each is closed when its context is done
}

type stateValue struct {
	bytes    []byte
	revision uint64
}

func (s *memoryState) Get(_ context.Context, key string) ([]byte, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return v.bytes, v.revision, nil
}

func (s *memoryState) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(key, value)
	return nil
}

func (s *memoryState) Update(_ context.Context, key string, value []byte, revision uint64) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values[key].revision != revision {
		return 0, ErrConflict
	}
	return s.put(key, value), nil
}

// put stores a value. The lock must be held.
func (s *memoryState) put(key string, value []byte) uint64 {
	s.revision++
	s.values[key] = stateValue{slices.Clone(value), s.revision}
	for _, w := range s.watchers[key] {
		select {
		case w <- struct{}{}:
		default: // a notification is pending
		}
	}
	return s.revision
}

func (s *memoryState) Delete(_ context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.values, func(k string, _ stateValue) bool { return k == key || strings.HasPrefix(k, key+".") })
	return nil
}

func (s *memoryState) Keys(_ context.Context, prefix string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for k := range s.values {
		if strings.HasPrefix(k, prefix+".") {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

func (s *memoryState) Watch(ctx context.Context, key string) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := make(chan struct{}, 1)
	s.watchers[key] = append(s.watchers[key], w)
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers[key] = slices.DeleteFunc(s.watchers[key], func(other chan struct{}) bool { return other == w })
		close(w)
	})
	return w, nil
}
