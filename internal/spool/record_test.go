package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixture returns a segment of n calls, and the position of each record, starting with the head.
func fixture(n int) (data []byte, calls []string, at []int) { return segmentOf(7, 0, 0, n) }

// former returns a segment of an older generation that is longer than fixture(10).
func former() []byte {
	data, _, _ := segmentOf(6, 0, 1000, 40)
	return data
}

// reused returns a segment of 10 calls that was written over the segment of former.
func reused() (data []byte, at []int) {
	data, _, at = segmentOf(7, 1, 0, 10)
	return append(data, former()[len(data):]...), at
}

func segmentOf(generation, longer uint32, firstID, n int) (data []byte, calls []string, at []int) {
	at = []int{0}
	source := [8]byte{1, 2, 3}
	data = appendRecord(nil, record{kindHead, generation, longer, append([]byte{formatVersion}, source[:]...)})
	for i := range n {
		call := fmt.Sprintf(`{"event":"%s","userId":"u","type":"track","messageId":"%d"}`, strings.Repeat("é", i%7), firstID+i)
		calls = append(calls, call)
		at = append(at, len(data))
		data = appendRecord(data, record{kindData, generation, uint32(i), []byte(call)})
	}
	return data, calls, at
}

func bodies(records []record) (calls []string) {
	for _, r := range records {
		calls = append(calls, string(r.body))
	}
	return calls
}

func TestSegmentContents(t *testing.T) {
	for name, c := range map[string]struct {
		damage  func(data []byte, at []int) []byte
		lost    []int  // lost calls
		ended   []int  // lost calls that count as acknowledged
		missing []span // losses that the reader reports
		damaged bool
	}{
		"whole":            {damage: func(data []byte, at []int) []byte { return data }},
		"torn in the body": {damage: func(data []byte, at []int) []byte { return data[:len(data)-1] }, lost: []int{9}, damaged: true},
		"torn in the head": {damage: func(data []byte, at []int) []byte { return data[:at[10]+recordHead-1] }, lost: []int{9}, damaged: true},
		"cut between two":  {damage: func(data []byte, at []int) []byte { return data[:at[10]] }, lost: []int{9}},
		"empty":            {damage: func(data []byte, at []int) []byte { return nil }, lost: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"one body": {
			damage: func(data []byte, at []int) []byte { data[at[4]+recordHead+3]++; return data },
			lost:   []int{3}, missing: []span{{3, 4}}, damaged: true,
		},
		"the last body": {
			damage: func(data []byte, at []int) []byte { data[at[10]+recordHead+3]++; return data },
			lost:   []int{9}, missing: []span{{9, 10}}, damaged: true,
		},
		"a length that reaches over others": {
			damage: func(data []byte, at []int) []byte {
				binary.LittleEndian.PutUint32(data[at[1]+4:], uint32(at[5]-at[1]-recordHead))
				return data
			},
			lost: []int{0}, missing: []span{{0, 1}}, damaged: true,
		},
		"a length without end": {
			damage: func(data []byte, at []int) []byte {
				binary.LittleEndian.PutUint32(data[at[1]+4:], 1<<32-1)
				return data
			},
			lost: []int{0}, missing: []span{{0, 1}}, damaged: true,
		},
		"an index": {
			damage: func(data []byte, at []int) []byte { data[at[6]+8] = 200; return data },
			lost:   []int{5}, missing: []span{{5, 6}}, damaged: true,
		},
		"the head of the file": {damage: func(data []byte, at []int) []byte { data[3] = 7; return data }, damaged: true},
		"zeros in the middle": {
			damage: func(data []byte, at []int) []byte { clear(data[at[3]+5 : at[6]+1]); return data },
			lost:   []int{2, 3, 4, 5}, missing: []span{{2, 6}}, damaged: true,
		},
		"longer, zeros behind": {
			damage: func([]byte, []int) []byte {
				data, _, _ := segmentOf(7, 1, 0, 10)
				return append(data, make([]byte, 4096)...)
			},
		},
		"used before": {damage: func([]byte, []int) []byte { data, _ := reused(); return data }},
		"used before, the last call torn": {
			damage: func([]byte, []int) []byte {
				data, at := reused()
				copy(data[at[10]+20:], former()[at[10]+20:])
				return data
			},
			lost: []int{9}, damaged: true,
		},
		"used before, torn in its head": { // nothing shows that a new segment was started
			damage: func([]byte, []int) []byte {
				data, at := reused()
				copy(data[at[10]+3:], former()[at[10]+3:])
				return data
			},
			lost: []int{9},
		},
		"used before, a call damaged": {
			damage: func([]byte, []int) []byte { data, at := reused(); data[at[4]+recordHead+3]++; return data },
			lost:   []int{3}, missing: []span{{3, 4}}, damaged: true,
		},
		"used before, only what was before": {
			damage: func([]byte, []int) []byte { return former() },
			lost:   []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
		},
		"zeros at the end": {damage: func(data []byte, at []int) []byte { return append(data, make([]byte, 4096)...) }, damaged: true},
		"a part cut out": {
			damage: func(data []byte, at []int) []byte { return slices.Delete(data, at[3]+9, at[4]+2) },
			lost:   []int{2, 3}, missing: []span{{2, 4}}, damaged: true,
		},
		"a part twice": {damage: func(data []byte, at []int) []byte { return append(data, data[at[2]:at[5]]...) }},
		"a part moved": {damage: func(data []byte, at []int) []byte { return append(slices.Clone(data[at[5]:]), data[:at[5]]...) }},
		"ends":         {damage: func(data []byte, at []int) []byte { return appendEnds(data, 7, 2, tally{3, 10, 3}) }, ended: []int{2, 3, 4}},
		"ends, in parts": {damage: func(data []byte, at []int) []byte {
			return appendEnds(appendEnds(data, 7, 9, tally{1, 10, 1}), 7, 0, tally{2, 10, 3})
		}, ended: []int{0, 1, 9}},
		"what has ended is damaged": {
			damage: func(data []byte, at []int) []byte {
				data[at[4]+1]++
				return appendEnds(data, 7, 2, tally{3, 10, 3})
			},
			ended: []int{2, 3, 4}, damaged: true,
		},
		"the last is known to be missing": {
			damage: func(data []byte, at []int) []byte { return appendEnds(data[:at[10]], 7, 0, tally{0, 10, 0}) },
			lost:   []int{9}, missing: []span{{9, 10}},
		},
		"ends of more than there are": {
			damage: func(data []byte, at []int) []byte { return appendEnds(data, 7, 2, tally{9, 10, 9}) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, calls, at := fixture(10)
			data = c.damage(data, at)
			got := readContents(data, 7, nil)
			got.checkEnd(data, 7)
			left, missing := got.left(span{0, got.upTo})
			var want []string
			for i, call := range calls {
				if !slices.Contains(c.lost, i) && !slices.Contains(c.ended, i) {
					want = append(want, call)
				}
			}
			require.Equal(t, want, bodies(left))
			require.Equal(t, c.missing, missing)
			require.Equal(t, c.damaged, got.corrupted > 0)
		})
	}
}

// A part of a call may look like a record. It is not read as a record.
func TestSegmentInACall(t *testing.T) {
	inner, _, _ := fixture(3)
	encoded, err := json.Marshal(string(inner))
	require.NoError(t, err)
	require.NotContains(t, string(encoded), "\xff")
	data := appendRecord(nil, record{kindData, 7, 0, encoded})
	data[5]++ // corrupt the record, so that the reader searches its body
	c := readContents(data, 7, nil)
	require.Empty(t, c.records)
}

// FuzzSegment corrupts a segment. The reader must return only calls that were written, and must
// return all calls that are not corrupted.
func FuzzSegment(f *testing.F) {
	f.Add([]byte{}, 0, 0, uint8(0))
	f.Add([]byte("overwritten"), 100, 0, uint8(1))
	f.Add([]byte{recordMark, kindData, 0, 0, 255, 255, 0, 0}, 90, 0, uint8(1))
	f.Add([]byte{recordMark}, 300, 200, uint8(2))
	f.Add([]byte("inserted"), 256, 0, uint8(2))
	f.Add(appendEnds(nil, 7, 0, tally{0, 3, 0}), 1<<20, 0, uint8(2))
	f.Add([]byte("overwritten"), 2000, 0, uint8(4))
	f.Add([]byte{recordMark, kindData, 9, 0, 7, 0, 0, 0}, 900, 60, uint8(5))
	f.Fuzz(func(t *testing.T, patch []byte, at, cut int, how uint8) {
		data, calls, starts := fixture(12)
		whole := len(data)
		if how%6 > 2 { // use a segment in a reused file
			data, _, _ = segmentOf(7, 1, 0, 12)
			data = append(data, former()[whole:]...)
		}
		at = min(max(at, 0), len(data))
		cut = min(max(cut, 0), len(data)-at)
		var damaged []byte
		first, end := at, at+cut // the range of changed bytes
		switch how % 3 {
		case 0: // truncate the file
			damaged, first, end = patch, 0, len(data)
		case 1: // overwrite bytes
			damaged = slices.Clone(data)
			end = at + copy(damaged[at:], patch)
		default: // replace a part
			damaged = slices.Concat(data[:at], patch, data[at+cut:])
		}
		c := readContents(damaged, 7, nil)
		c.checkEnd(damaged, 7)
		left, _ := c.left(span{0, c.upTo})
		found := map[string]bool{}
		for _, r := range left {
			if how%3 != 0 && !bytes.Contains(patch, r.body) {
				require.Less(t, int(r.index), len(calls))
				require.Equal(t, calls[r.index], string(r.body), "a call that was not made")
			}
			require.False(t, found[string(r.body)] && how%3 != 0, "a call twice")
			found[string(r.body)] = true
		}
		for i, call := range calls {
			begin, over := starts[i+1], whole
			if i+2 < len(starts) {
				over = starts[i+2]
			}
			if touched := begin < end && over > first || first == end && begin < first && first < over; !touched && !endedBy(c, i) {
				require.True(t, found[call], "call %d is lost, bytes %d to %d are damaged", i, first, end)
			}
		}
	})
}

// endedBy reports whether a record acknowledges the call. In the fuzz test, such a record can only
// come from the fuzzer's input.
func endedBy(c contents, call int) bool {
	return slices.ContainsFunc(c.ended, func(s span) bool { return int(s.first) <= call && call < int(s.end) })
}

// Discard does not drop the segments that Read has already reached.
func TestDiscardSkipsReadSegments(t *testing.T) {
	before := &segment{base: 1 << positionBits, sealed: true, records: 5}
	read := &segment{base: 2 << positionBits, sealed: true, records: 5, ended: 5}
	after := &segment{base: 3 << positionBits, sealed: true, records: 5, ended: 2}
	l := &Log{cursor: cursor{segment: read}, segments: []*segment{before}, wake: make(chan struct{}, 1)}
	_, _, ok := l.Discard()
	require.False(t, ok)
	l.segments = append(l.segments, after)
	first, n, ok := l.Discard()
	require.True(t, ok)
	require.Equal(t, after.base, first)
	require.Equal(t, 3, n)
	require.Zero(t, before.ended)
	require.EqualValues(t, 5, after.ended)
}
