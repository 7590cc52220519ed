// Package roster implements sorted lists of users that may be larger than memory. It sorts lists
// with a bounded buffer, writes and reads them in segments, and compares them.
//
// Data is passed as a [Seq], one entry at a time. Only Sort and its result keep more than a segment
// in memory: a buffer, and one segment of each sorted part.
package roster

import (
	"bytes"
	"fmt"
	"iter"
)

// An Entry is a user with an optional value.
type Entry struct {
	User  string
	Value []byte // nil in lists without values
}

// A Seq yields entries. It stops after an error.
type Seq = iter.Seq2[Entry, error]

// Empty is an empty Seq.
func Empty(func(Entry, error) bool) {}

// values yields entries.
func values(entries []Entry) Seq {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Filter yields the entries that keep accepts.
func Filter(entries Seq, keep func(Entry) bool) Seq {
	return func(yield func(Entry, error) bool) {
		for e, err := range entries {
			if err == nil && !keep(e) {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// Count returns the number of entries.
func Count(entries Seq) (n int64, err error) {
	for _, err := range entries {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}

// A Change is a difference between two lists.
type Change struct {
	User    string
	Value   []byte // value in the newer list
	Removed bool   // the newer list does not contain the user
}

// Diff yields the differences between two lists, ordered by user. If all is set, it also yields
// users without differences. Both lists must be sorted and contain each user once.
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

// CountChanges returns the numbers of users with a new value and of removed users.
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

// Without yields the entries of users that are not in gone. Both lists must be sorted.
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

// A cursor points to an entry of a Seq.
type cursor struct {
	Entry
	ok   bool // false at the end
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

// unordered returns the error for a Seq that is not sorted.
func unordered(before, after string) error {
	return fmt.Errorf("roster: user %q comes after %q: the entries are not sorted, or contain a duplicate", after, before)
}
