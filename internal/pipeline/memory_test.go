package pipeline

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A full client needs less than 90 MB, although the garbage collector lets the heap grow to twice the
// memory in use.
func TestFullClientTakesLessThan90MB(t *testing.T) {
	small, large := fmt.Sprintf(`{"text":"%0200d"}`, 0), fmt.Sprintf(`{"text":"%0630d"}`, 0)
	for _, c := range []struct {
		name string
		call string
		cfg  Config
	}{
		{"large calls in batches of 20", large, Config{FlushAt: 20}},
		{"large calls in batches of 640", large, Config{FlushAt: 640}},
		{"small calls in batches of 100", small, Config{FlushAt: 100}},
		{"small calls in batches of 20, compressed", small, Config{FlushAt: 20, Gzip: true, MaxBytes: 8 << 20}},
		{"large calls in batches of 20, dropping the oldest", large, Config{FlushAt: 20, WhenFull: DropOldest}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			p := startTestPipeline(t, c.cfg, silent{})
			defer p.Shutdown(canceled())
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for full := 0; full < 100 && p.Stats().Dropped.Overflow < 20_000; {
						if accept(p, c.call) != nil {
							full++
						}
					}
				})
			}
			callers.Wait()
			s := p.Stats()
			require.LessOrEqual(t, s.Bytes, p.MaxBytes)
			require.Greater(t, s.Bytes, p.MaxBytes*7/8)
			onHeap := heap() - before
			t.Logf("%.1f MB on the heap", float64(onHeap)/1e6)
			require.Less(t, 2*onHeap, int64(80e6), "the rest of a process takes 10 MB")
		})
	}
}
