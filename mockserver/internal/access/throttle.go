package access

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxGuesses is the maximum number of invalid tokens per address within guessWindow.
	maxGuesses  = 10
	guessWindow = time.Minute
	// maxGuessers is the maximum number of tracked addresses.
	maxGuessers = 4096
)

// A throttle counts invalid tokens per address. Its methods are safe for concurrent use.
type throttle struct {
	mu       sync.Mutex // guards guessers
	guessers map[netip.Addr]guesser
}

// A guesser is an address that has sent invalid tokens.
type guesser struct {
	since time.Time
	wrong int
}

// blocks reports whether an address has sent too many invalid tokens.
func (t *throttle) blocks(address netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.guessers[address]
	return g.wrong >= maxGuesses && time.Since(g.since) < guessWindow
}

// wrong counts an invalid token from an address.
func (t *throttle) wrong(address netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.guessers[address]
	if time.Since(g.since) >= guessWindow {
		g = guesser{since: time.Now()}
	}
	if g.wrong++; len(t.guessers) >= maxGuessers {
		t.evict()
	}
	if t.guessers == nil {
		t.guessers = map[netip.Addr]guesser{}
	}
	t.guessers[address] = g
}

// evict removes expired addresses. If none has expired, it removes all addresses. The caller must
// hold the lock.
func (t *throttle) evict() {
	for address, g := range t.guessers {
		if time.Since(g.since) >= guessWindow {
			delete(t.guessers, address)
		}
	}
	if len(t.guessers) >= maxGuessers {
		clear(t.guessers)
	}
}
