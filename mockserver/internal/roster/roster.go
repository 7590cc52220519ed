// Package roster implements sorted lists of users that may be larger than memory. It sorts lists
// with a bounded buffer, writes and reads them in segments, and compares them.
//
// Data is passed as a [Seq], one entry at a time. Only Sort and its result keep more than a segment
// in memory: a buffer, and one segment of each sorted part.
package roster

import (
	"bytes"
	"cmp"
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
		for p, err := range pairs(older, newer) {
			if err == nil && p.inOlder && p.inNewer && !all && bytes.Equal(p.older, p.newer) {
				continue
			}
			if !yield(Change{p.user, p.newer, !p.inNewer}, err) {
				return
			}
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

// Without yields the entries of users that are not in gone. Both lists must be sorted and contain
// each user once.
func Without(entries, gone Seq) Seq {
	return func(yield func(Entry, error) bool) {
		for p, err := range pairs(gone, entries) {
			if err == nil && (p.inOlder || !p.inNewer) {
				continue
			}
			if !yield(Entry{p.user, p.newer}, err) {
				return
			}
		}
	}
}

// A pair contains the values of a user in two lists.
type pair struct {
	user             string
	older, newer     []byte
	inOlder, inNewer bool // whether the list contains the user
}

// pairs yields the users of two sorted lists, in order. It stops after an error.
func pairs(older, newer Seq) iter.Seq2[pair, error] {
	return func(yield func(pair, error) bool) {
		next, stop := iter.Pull2(older)
		defer stop()
		a, failed, ok := next()
		for b, err := range newer {
			for ; err == nil && failed == nil && ok && a.User < b.User; a, failed, ok = next() {
				if !yield(pair{user: a.User, older: a.Value, inOlder: true}, nil) {
					return
				}
			}
			if err = cmp.Or(err, failed); err != nil {
				yield(pair{}, err)
				return
			}
			p := pair{user: b.User, newer: b.Value, inNewer: true}
			if ok && a.User == b.User {
				p.older, p.inOlder = a.Value, true
				a, failed, ok = next()
			}
			if !yield(p, nil) {
				return
			}
		}
		for ; ok; a, failed, ok = next() {
			if !yield(pair{user: a.User, older: a.Value, inOlder: true}, failed) || failed != nil {
				return
			}
		}
	}
}

// unordered returns the error for a Seq that is not sorted.
func unordered(before, after string) error {
	return fmt.Errorf("roster: user %q comes after %q: the entries are not sorted, or contain a duplicate", after, before)
}
