package roster

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seq yields entries.
func seq(entries []Entry) Seq { return failing(entries, nil) }

// failing yields entries, and then an error unless it is nil.
func failing(entries []Entry, err error) Seq {
	return func(yield func(Entry, error) bool) {
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

func all(t *testing.T, s Seq) []Entry {
	t.Helper()
	var entries []Entry
	for e, err := range s {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	return entries
}

// firstError returns the error of a Seq.
func firstError[T any](s func(func(T, error) bool)) error {
	for _, err := range s {
		if err != nil {
			return err
		}
	}
	return nil
}

// users returns entries without values.
func users(words string) []Entry {
	var entries []Entry
	for _, u := range strings.Fields(words) {
		entries = append(entries, Entry{User: u})
	}
	return entries
}

// random returns n random entries of about n/2 users, half of them with values.
func random(r *rand.Rand, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i].User = fmt.Sprintf("user-%d", r.IntN(n/2+1))
		if r.IntN(2) == 0 {
			entries[i].Value = fmt.Appendf([]byte{}, "%d", r.IntN(3))
		}
	}
	return entries
}

// sorted returns the expected result of Sort.
func sorted(entries []Entry) []Entry {
	last := map[string]Entry{}
	for _, e := range entries {
		last[e.User] = e
	}
	return slices.SortedFunc(maps.Values(last), func(a, b Entry) int { return cmp.Compare(a.User, b.User) })
}

// written contains the segments that were written.
type written [][]byte

func (w *written) put(n int, segment []byte) error {
	if n != len(*w) {
		return fmt.Errorf("segment %d after %d", n, len(*w))
	}
	*w = append(*w, slices.Clone(segment))
	return nil
}

func (w written) get(n int) ([]byte, error) { return w[n], nil }

func write(t *testing.T, entries []Entry) written {
	t.Helper()
	var w written
	count, segments, err := Write(seq(entries), w.put)
	require.NoError(t, err)
	assert.EqualValues(t, len(entries), count)
	assert.Len(t, w, segments)
	return w
}

func TestSortWithLittleMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 100, 1000} {
		for _, memory := range []int{1, 1000, 40_000, SortMemory} {
			dir := t.TempDir()
			entries := random(r, n)
			s, err := sortIn(seq(entries), dir, memory)
			require.NoError(t, err)
			want := sorted(entries)
			for range 2 {
				require.Equal(t, want, all(t, s.All()), "%d entries in %d bytes", n, memory)
			}
			for range s.All() {
				break // Seq must stop
			}
			require.NoError(t, s.Close())
			require.NoError(t, s.Close())
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Empty(t, left)
		}
	}
}

func TestSortRemovesItsFileAfterAnError(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("connection lost")
	_, err := sortIn(failing(users("a b c d e f"), broken), dir, 1)
	require.ErrorIs(t, err, broken)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)

	_, err = sortIn(seq(users("a b c")), dir+"/none", 1)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSortedDetectsADamagedFile(t *testing.T) {
	entries := users("e a d b c")
	s, err := sortIn(seq(entries), t.TempDir(), 1) // one segment per user, except for the last user
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	fails := func(want error, damage string) {
		t.Helper()
		var got []Entry
		failures := 0
		for e, err := range s.All() {
			if err != nil {
				require.ErrorIs(t, err, want, damage)
				failures++
				continue
			}
			got = append(got, e)
		}
		require.Equal(t, 1, failures, damage)
		require.Less(t, len(got), len(entries), damage)
		require.Equal(t, sorted(entries)[:len(got)], append([]Entry{}, got...), damage)
	}
	for at := range s.size {
		b := make([]byte, 1)
		_, err := s.file.ReadAt(b, at)
		require.NoError(t, err)
		_, err = s.file.WriteAt([]byte{b[0] ^ 0x10}, at)
		require.NoError(t, err)
		fails(ErrCorrupt, fmt.Sprint("byte ", at))
		_, err = s.file.WriteAt(b, at)
		require.NoError(t, err)
	}
	require.Equal(t, sorted(entries), all(t, s.All()))
	require.NoError(t, s.file.Truncate(s.size-1))
	fails(io.EOF, "cut")
}

func TestWriteAndRead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 10, 60_000} {
		entries := sorted(random(r, n))
		w := write(t, entries)
		require.Equal(t, entries, all(t, Read(len(w), w.get)))
		for i, segment := range w[:max(0, len(w)-1)] {
			assert.InDelta(t, SegmentSize, len(segment), 100, "segment %d", i)
		}
	}
	odd := []Entry{{User: ""}, {User: "\x00"}, {User: "a", Value: []byte{}}, {User: "ab", Value: []byte("null")}, {User: strings.Repeat("z", SegmentSize)}}
	w := write(t, odd)
	assert.Equal(t, odd, all(t, Read(len(w), w.get)))
}

func TestWriteRefusesUnsortedEntries(t *testing.T) {
	for _, words := range []string{"b a", "a a"} {
		_, _, err := Write(seq(users(words)), new(written).put)
		assert.ErrorContains(t, err, "not sorted")
	}
}

func TestReadDetectsCorruption(t *testing.T) {
	w := write(t, sorted(random(rand.New(rand.NewPCG(5, 6)), 200)))
	require.Len(t, w, 1)
	for i := range w[0] {
		damaged := slices.Clone(w[0])
		damaged[i] ^= 0x10
		require.ErrorIs(t, firstError(Read(1, written{damaged}.get)), ErrCorrupt, "byte %d", i)
	}
	for i := range len(w[0]) {
		require.ErrorIs(t, firstError(Read(1, written{w[0][:i]}.get)), ErrCorrupt, "cut at %d", i)
	}
	twice := written{w[0], w[0]}
	assert.ErrorContains(t, firstError(Read(2, twice.get)), "segment 1 of 2")
	missing := errors.New("no such segment")
	assert.ErrorIs(t, firstError(Read(1, func(int) ([]byte, error) { return nil, missing })), missing)
}

func TestDiff(t *testing.T) {
	value := func(user, v string) Entry { return Entry{User: user, Value: []byte(v)} }
	set := func(user, v string) Change { return Change{User: user, Value: []byte(v)} }
	for name, test := range map[string]struct {
		older, newer []Entry
		all          bool
		want         []Change
	}{
		"nothing":       {},
		"the first":     {newer: users("a b"), want: []Change{{User: "a"}, {User: "b"}}},
		"the last":      {older: users("a b"), want: []Change{{User: "a", Removed: true}, {User: "b", Removed: true}}},
		"the same":      {older: users("a b"), newer: users("a b")},
		"the same, all": {older: users("a b"), newer: users("a b"), all: true, want: []Change{{User: "a"}, {User: "b"}}},
		"some":          {older: users("a b d"), newer: users("b c"), want: []Change{{User: "a", Removed: true}, {User: "c"}, {User: "d", Removed: true}}},
		"values": {
			older: []Entry{value("a", "1"), value("b", "1"), value("c", "1")},
			newer: []Entry{value("a", "1"), value("b", "2"), value("d", "1")},
			want:  []Change{set("b", "2"), {User: "c", Removed: true}, set("d", "1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Change
			for c, err := range Diff(seq(test.older), seq(test.newer), test.all) {
				require.NoError(t, err)
				got = append(got, c)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestDiffReturnsErrors(t *testing.T) {
	broken := errors.New("broken")
	assert.ErrorIs(t, firstError(Diff(failing(users("a"), broken), seq(users("a b")), false)), broken)
	assert.ErrorIs(t, firstError(Diff(seq(users("a b")), failing(users("a"), broken), false)), broken)
	assert.ErrorIs(t, firstError(Diff(Empty, failing(nil, broken), false)), broken)
	for range Diff(seq(users("a b")), Empty, false) {
		break // Seq must stop
	}
}

func TestWithout(t *testing.T) {
	assert.Equal(t, users("b d"), all(t, Without(seq(users("a b c d")), seq(users("a bb c e")))))
	assert.Equal(t, users("a"), all(t, Without(seq(users("a")), Empty)))
	assert.Empty(t, all(t, Without(Empty, seq(users("a")))))
	broken := errors.New("broken")
	assert.ErrorIs(t, firstError(Without(failing(users("a"), broken), Empty)), broken)
	assert.ErrorIs(t, firstError(Without(seq(users("a b c")), failing(users("a"), broken))), broken)
}

func FuzzRead(f *testing.F) {
	var w written
	_, _, _ = Write(seq([]Entry{{User: "a"}, {User: "ab", Value: []byte("1")}}), w.put)
	f.Add(w[0][:len(w[0])-checkLen])
	f.Add([]byte{segmentFormat, 0, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		segment := binary.BigEndian.AppendUint32(slices.Clone(body), crc32.Checksum(body, castagnoli))
		var entries []Entry
		for e, err := range Read(1, written{segment}.get) {
			if err != nil {
				return
			}
			entries = append(entries, e)
		}
		var again written
		if _, _, err := Write(seq(entries), again.put); err != nil {
			t.Fatalf("could not write the entries again: %v", err)
		}
		require.Equal(t, entries, all(t, Read(len(again), again.get)))
	})
}
