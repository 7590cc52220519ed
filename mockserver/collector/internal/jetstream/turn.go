package jetstream

import "sync"

// A turn is a lock that is held while servers are asked. Who waits for it is blocked as
// package synctest understands it, which nobody is who waits for a mutex. The zero value is
// not taken.
type turn struct {
	once  sync.Once     // makes taken
	taken chan struct{} // holds a token while somebody has the turn; never closed
}

func (t *turn) Lock() {
	t.once.Do(func() { t.taken = make(chan struct{}, 1) })
	t.taken <- struct{}{}
}

func (t *turn) Unlock() { <-t.taken }
