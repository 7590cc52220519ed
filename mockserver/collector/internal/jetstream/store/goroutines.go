package store

import (
	"sync"
)

// goroutines are those of a journal: Close waits for all of them. The zero value is
// ready for use.
type goroutines struct {
	mu     sync.Mutex // guards closed; held while a goroutine is counted
	closed bool
	work   sync.WaitGroup
}

// Go runs f in a goroutine of its own, which must end when the journal's context does. It
// reports false, and does not run f, once Wait was called.
func (g *goroutines) Go(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.work.Go(f)
	}
	return !g.closed
}

// Wait waits for all goroutines. From then on there are no new ones.
func (g *goroutines) Wait() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.work.Wait()
}

// Poke puts a token into a channel that holds one, if it is not there.
func Poke(changes chan<- struct{}) {
	select {
	case changes <- struct{}{}:
	default: // it has one to read
	}
}
