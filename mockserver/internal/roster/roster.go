// Package roster keeps sorted sets of users, each with a value, that can be
// larger than memory: it sorts a list of any order and length with a bounded
// buffer, writes it in segments, reads it back, and tells how two differ.
//
// Everything passes through a [Seq], one entry at a time. Only Sort holds more
// than a segment.
package roster

import (
	"bytes"
	"fmt"
	"iter"
)

// An Entry is one user of a roster.
type Entry struct {
	User  string
	Value []byte // nil where a roster has no values
}

// A Seq yields entries. After an error it yields nothing more.
type Seq = iter.Seq2[Entry, error]

// Empty is a Seq of no entries.
func Empty(func(Entry, error) bool) {}

// Count returns how many entries there are.
func Count(entries Seq) (n int64, err error) {
	for _, err := range entries {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// A Change is one user in whom two rosters differ.
type Change struct {
	User    string
	Value   []byte // that of the newer roster
	Removed bool   // the newer roster lacks the user
}

// Diff yields what is to be told to someone who knows the older roster, so that
// they know the newer one, ordered by user. With all it also yields the users in
// whom they do not differ. Both must be sorted and have each user once.
func Diff(older, newer Seq, all bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		a, stopA := pull(older)
		defer stopA()
		b, stopB := pull(newer)
		defer stopB()
		a.next()
		b.next()
		for (a.ok || b.ok) && a.err == nil && b.err == nil {
			var change Change
			differs := true
			switch {
			case !b.ok || a.ok && a.User < b.User:
				change = Change{User: a.User, Removed: true}
				a.next()
			case !a.ok || b.User < a.User:
				change = Change{User: b.User, Value: b.Value}
				b.next()
			default:
				change = Change{User: b.User, Value: b.Value}
				differs = all || !bytes.Equal(a.Value, b.Value)
				a.next()
				b.next()
			}
			if differs && !yield(change, nil) {
				return
			}
		}
		if a.err != nil {
			yield(Change{}, a.err)
		} else if b.err != nil {
			yield(Change{}, b.err)
		}
	}
}

// CountChanges returns how many users have a new value, and how many are removed.
func CountChanges(changes iter.Seq2[Change, error]) (entered, left int64, err error) {
	for change, err := range changes {
		switch {
		case err != nil:
			return 0, 0, err
		case change.Removed:
			left++
		default:
			entered++
		}
	}
	return entered, left, nil
}

// Without yields the entries whose user is not in gone. Both must be sorted.
func Without(entries, gone Seq) Seq {
	return func(yield func(Entry, error) bool) {
		g, stop := pull(gone)
		defer stop()
		g.next()
		for e, err := range entries {
			for err == nil && g.ok && g.User < e.User {
				g.next()
			}
			if err == nil {
				err = g.err
			}
			if err != nil {
				yield(Entry{}, err)
				return
			}
			if g.ok && g.User == e.User {
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// A cursor is at one entry of a Seq.
type cursor struct {
	Entry
	ok   bool // there is an entry
	err  error
	pull func() (Entry, error, bool)
}

func pull(s Seq) (*cursor, func()) {
	next, stop := iter.Pull2(s)
	return &cursor{pull: next}, stop
}

func (c *cursor) next() {
	c.Entry, c.err, c.ok = c.pull()
	c.ok = c.ok && c.err == nil
}

// unordered is the error of a Seq that is not sorted.
func unordered(before, after string) error {
	return fmt.Errorf("roster: user %q comes after %q: the entries are not sorted, or one is there twice", after, before)
}
