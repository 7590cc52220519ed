package offheap

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzStore puts and frees strings as the bytes of ops say, and holds the store against a
// list of strings.
func FuzzStore(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		ops := make([]byte, 100)
		for i := range ops {
			ops[i] = byte(rnd.Uint32())
		}
		f.Add(ops)
	}
	f.Add(bytes.Repeat([]byte{0x01, 0x3f, 0x00}, 50)) // whole segments
	f.Fuzz(func(t *testing.T, ops []byte) {
		type kept struct {
			in   String
			size int
			fill byte
		}
		var s Store
		defer s.Trim(0)
		var list []kept
		used := 0
		free := func(i int) {
			k := list[i]
			got := k.in.AppendTo([]byte("before"))
			require.Equal(t, k.size, k.in.Len())
			require.True(t, bytes.Equal(got, append([]byte("before"), bytes.Repeat([]byte{k.fill}, k.size)...)))
			k.in.Free()
			used -= k.size
			list = append(list[:i], list[i+1:]...)
		}
		for i, op := range ops[:min(len(ops), 300)] {
			switch size := int(op>>2)*segmentSize/63*int(op%4+1)/2 + 1; {
			case op%4 == 0 && len(list) > 0:
				free(0)
			case op == 3 && len(list) > 0:
				free(len(list) / 2)
			case op == 7:
				spare := s.Spare()
				require.LessOrEqual(t, s.Trim(segmentSize), spare)
				require.LessOrEqual(t, s.Spare(), int64(segmentSize))
			default:
				needs, taken := s.Needs(size), s.taken
				in, ok := s.Put(bytes.Repeat([]byte{byte(i)}, size))
				require.True(t, ok)
				require.Equal(t, needs, s.taken-taken)
				list = append(list, kept{in, size, byte(i)})
				used += size
			}
			require.EqualValues(t, used, s.Used())
			require.Equal(t, s.taken-s.used, s.Idle())
			require.GreaterOrEqual(t, s.Idle(), s.Spare())
		}
		for len(list) > 0 {
			free(len(list) - 1)
		}
		s.Trim(0)
		require.Zero(t, s.taken)
		require.Empty(t, s.segments)
	})
}

// Strings that leave in the order in which they came leave no holes.
func TestStoreTakesLittleMoreThanItsStrings(t *testing.T) {
	var s Store
	defer s.Trim(0)
	var queue []String
	for i := range 5_000 {
		in, ok := s.Put(make([]byte, 100+i*37%20_000))
		require.True(t, ok)
		if queue = append(queue, in); len(queue) > 300 {
			queue[0].Free()
			queue = queue[1:]
		}
		s.Trim(0)
		require.Less(t, s.Idle(), int64(2*segmentSize))
	}
	for _, in := range queue {
		in.Free()
	}
}

func TestStoreIsNotOnTheHeap(t *testing.T) {
	if heapOnly {
		t.Skip("this system has no memory but the heap")
	}
	const size = 32 << 20
	before := heap()
	var s Store
	in, ok := s.Put(make([]byte, size))
	require.True(t, ok)
	require.Less(t, heap()-before, int64(size/8))
	in.Free()
	require.EqualValues(t, size, s.Trim(0))
}

// heapOnly reports whether newMemory takes memory of the heap.
var heapOnly = runtime.GOOS == "windows" || runtime.GOOS == "plan9" || runtime.GOOS == "js" || runtime.GOOS == "wasip1"

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestEmptyStringIsFreedToNoEffect(t *testing.T) {
	String{}.Free()
	require.Zero(t, String{}.Len())
}

func BenchmarkPutAndFree(b *testing.B) {
	var s Store
	defer s.Trim(0)
	data := make([]byte, 400<<10)
	var queue []String
	for range 140 {
		in, _ := s.Put(data)
		queue = append(queue, in)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		data = queue[0].AppendTo(data[:0])
		queue[0].Free()
		in, _ := s.Put(data)
		queue = append(queue[1:], in)
	}
}
