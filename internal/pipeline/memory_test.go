package pipeline

import (
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client that is full takes its budget and a third: what waits is not on the heap, which
// the garbage collector lets grow to twice of what is in use.
func TestFullClientTakesItsBudgetAndAThird(t *testing.T) {
	const budget = 64 << 20
	small, large := fmt.Sprintf(`{"text":"%0200d"}`, 0), fmt.Sprintf(`{"text":"%0630d"}`, 0)
	for _, c := range []struct {
		name string
		call string
		cfg  Config
	}{
		{"large ones in batches of 20", large, Config{FlushAt: 20}},
		{"large ones in batches of 640", large, Config{FlushAt: 640}},
		{"small ones in batches of 100", small, Config{FlushAt: 100}},
		{"small ones in batches of 20, compressed", small, Config{FlushAt: 20, Gzip: true, MaxBytes: budget / 4}},
		{"large ones in batches of 20, of which the oldest are dropped", large, Config{FlushAt: 20, WhenFull: DropOldest}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := heap()
			p := startTestPipeline(t, c.cfg, silent{})
			defer p.Shutdown(cut())
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
			p.mu.Lock()
			outside := p.outbox.parked() + p.outbox.idle()
			p.mu.Unlock()
			t.Logf("%.1f MB on the heap, %.1f MB outside", float64(onHeap)/1e6, float64(outside)/1e6)
			require.LessOrEqual(t, outside+2*onHeap, p.MaxBytes+budget/3-10<<20, "a process takes 10 MB without")
		})
	}
}

// What waits outside of the heap comes back as it was, in its order.
func TestParkedBatchesAreDelivered(t *testing.T) {
	for _, cfg := range []Config{
		{FlushAt: 20},
		{FlushAt: 640},
		{FlushAt: 100, Gzip: true},
		{FlushAt: 100, Spool: t.TempDir()},
		{FlushAt: 20, WhenFull: DropOldest},
	} {
		t.Run(fmt.Sprintf("FlushAt %d, Gzip %v, WhenFull %v, spool %v", cfg.FlushAt, cfg.Gzip, cfg.WhenFull, cfg.Spool != ""), func(t *testing.T) {
			shut := &gated{open: make(chan struct{})}
			cfg.MaxBytes, cfg.MaxInFlight = 12<<20, 1
			p := startTestPipeline(t, cfg, shut)
			text := strings.Repeat("x", 2_000)
			rnd := rand.New(rand.NewPCG(5, 6))
			parked := func() int64 {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.outbox.parked()
			}
			made := 0
			for parked() < 4<<20 && p.Stats().Dropped.total() < 1_000 {
				if cfg.Gzip { // or it becomes too small
					text = randomText(rnd, 2_000)
				}
				require.NoError(t, accept(p, fmt.Sprintf(`{"event":"event-%06d","text":"%s"}`, made, text)))
				made++
			}
			close(shut.open)
			require.Nil(t, p.Flush(t.Context()))
			s := p.Stats()
			require.EqualValues(t, made, s.Delivered+s.Dropped.Overflow)
			require.Len(t, shut.events, int(s.Delivered))
			require.True(t, slices.IsSorted(shut.events))
			_, err := p.Shutdown(t.Context())
			require.NoError(t, err)
			require.Zero(t, p.budget.used)
			require.Zero(t, p.outbox.idle()+p.outbox.parked(), "memory that no garbage collector takes back")
		})
	}
}

// randomText makes a text that does not become shorter by compression than by a half.
func randomText(rnd *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = 'a' + byte(rnd.Uint32()%26)
	}
	return string(text)
}

// gated is a transport that takes the events of batches once it is open.
type gated struct {
	open   chan struct{}
	events []string
}

var eventName = regexp.MustCompile(`event-\d{6}`)

func (g *gated) RoundTrip(r *http.Request) (*http.Response, error) {
	<-g.open
	src := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		src = z
	}
	text, err := io.ReadAll(src)
	if err != nil {
		return nil, err
	}
	g.events = append(g.events, eventName.FindAllString(string(text), -1)...)
	return taker{}.RoundTrip(r)
}
