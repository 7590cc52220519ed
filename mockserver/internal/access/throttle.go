package access

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// maxGuesses is how many wrong tokens an address may send in a guessWindow.
	maxGuesses  = 10
	guessWindow = time.Minute
	// maxGuessers is how many addresses are remembered.
	maxGuessers = 4096
)

// A throttle bounds how often a token can be guessed. Its methods may be called
// from many goroutines at once.
type throttle struct {
	mu       sync.Mutex // guards guessers
	guessers map[netip.Addr]guesser
}

// A guesser is an address that has sent wrong tokens.
type guesser struct {
	since time.Time
	wrong int
}

// blocks reports whether an address has sent too many wrong tokens.
func (t *throttle) blocks(address netip.Addr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.guessers[address]
	return g.wrong >= maxGuesses && time.Since(g.since) < guessWindow
}

// wrong counts a wrong token.
func (t *throttle) wrong(address netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.guessers[address]
	if time.Since(g.since) >= guessWindow {
		g = guesser{since: time.Now()}
	}
	if g.wrong++; len(t.guessers) >= maxGuessers {
		t.forget()
	}
	if t.guessers == nil {
		t.guessers = map[netip.Addr]guesser{}
	}
	t.guessers[address] = g
}

// forget makes room: first it removes addresses that guess no longer. The lock is held.
func (t *throttle) forget() {
	for address, g := range t.guessers {
		if time.Since(g.since) >= guessWindow {
			delete(t.guessers, address)
		}
	}
	if len(t.guessers) >= maxGuessers {
		clear(t.guessers)
	}
}
