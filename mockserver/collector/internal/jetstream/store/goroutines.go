package store

import (
	"sync"
)

// goroutines tracks the goroutines of a journal. Close uses it to wait for them. The zero value is
// ready to use.
type goroutines struct {
	mu     sync.Mutex // guards closed; held while a goroutine is counted
	closed bool
	work   sync.WaitGroup
}

// Go runs f in a goroutine. f must return when the journal's context ends. If Wait was called
// before, Go returns false and does not run f.
func (g *goroutines) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.work.Go(f)
	}
	return !g.closed
}

// Wait waits for all goroutines and prevents new ones.
func (g *goroutines) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.work.Wait()
}

// Poke sends to a channel with a capacity of one, unless it is full.
func Poke(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default: // a signal is already pending
	}
}
