package mockserver

import (
	"context"
	"slices"
	"sync"
)

// NewMemorySettings returns a SettingsStore that is gone with its process.
func NewMemorySettings() SettingsStore { return &memorySettings{} }

type memorySettings struct {
	mu       sync.Mutex // guards what follows
	settings StoredSettings
	watchers []chan struct{} // each closed when its context ends
}

func (m *memorySettings) Load(context.Context) (StoredSettings, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.settings, nil
}

func (m *memorySettings) Save(_ context.Context, s StoredSettings) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.Revision != m.settings.Revision {
		return 0, ErrSettingsChanged
	}
	s.Revision++
	m.settings = s
	for _, w := range m.watchers {
		select {
		case w <- struct{}{}:
		default: // it has one to read
		}
	}
	return s.Revision, nil
}

func (m *memorySettings) Watch(ctx context.Context) (<-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := make(chan struct{}, 1)
	m.watchers = append(m.watchers, w)
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(other chan struct{}) bool { return other == w })
		close(w)
	})
	return w, nil
}
