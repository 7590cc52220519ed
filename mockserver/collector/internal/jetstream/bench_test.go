package jetstream_test

import (
	"fmt"
	"iter"
	"math/rand"
	"sync"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// realistic returns a batch of n calls of about 800 bytes.
func realistic(random *rand.Rand, source string, n int) event.Batch {
	b := event.Batch{Source: source, ReceivedAt: time.Now(), Calls: make([]tracking.Call, n)}
	at := b.ReceivedAt.UTC().Format("2006-01-02T15:04:05.000Z")
	for i := range b.Calls {
		id := fmt.Sprintf("%016x%016x", random.Uint64(), random.Uint64())
		body := fmt.Appendf(nil, `{"type":"track","userId":"user-%d","event":"Order Completed","properties":{"orderId":"%x",`+
			`"total":%d.%02d,"currency":"EUR","products":[{"sku":"%08x","name":"Thing %d","price":%d},{"sku":"%08x","name":"Thing %d","price":%d}],`+
			`"coupon":"SUMMER","path":"/checkout/%d"},"context":{"library":{"name":"analytics-go","version":"2.0.0"},"ip":"10.%d.%d.%d",`+
			`"userAgent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120 Safari/537.36","locale":"en-US",`+
			`"page":{"url":"https://example.com/checkout/%d","referrer":"https://example.com/cart"}},"integrations":{"All":true},`+
			`"messageId":%q,"receivedAt":%q,"sentAt":%q,"originalTimestamp":%q,"timestamp":%q}`,
			random.Intn(1e5), random.Uint64(), random.Intn(1e3), random.Intn(100), random.Uint32(), random.Intn(100), random.Intn(100),
			random.Uint32(), random.Intn(100), random.Intn(100), random.Intn(1e4), random.Intn(256), random.Intn(256), random.Intn(256),
			random.Intn(1e4), id, at, at, at, at)
		b.Calls[i] = tracking.Call{ID: id, Source: source, Type: "track", ReceivedAt: b.ReceivedAt, Timestamp: b.ReceivedAt, Body: body}
	}
	return b
}

// BenchmarkAppend stores batches of 100 calls of about 800 bytes from eight senders.
func BenchmarkAppend(b *testing.B) {
	for name, interval := range map[string]time.Duration{"sync": 0, "every second": time.Second} {
		b.Run(name, func(b *testing.B) {
			j := open(b, jetstream.Options{Dir: b.TempDir(), SyncInterval: interval})
			const senders, size = 8, 100
			batches := make([]event.Batch, senders)
			for i := range batches {
				batches[i] = realistic(rand.New(rand.NewSource(int64(i))), "web", size)
			}
			var senderGroup sync.WaitGroup
			todo := make(chan struct{}, b.N)
			for range b.N {
				todo <- struct{}{}
			}
			close(todo)
			b.SetBytes(int64(batches[0].Size()))
			b.ResetTimer()
			for i := range senders {
				senderGroup.Go(func() {
					for range todo {
						if err := j.Append(b.Context(), batches[i]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			senderGroup.Wait()
			b.ReportMetric(float64(b.N*size)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkStart opens an empty journal, and a journal with a million pending calls. "ready" is
// the time until the journal accepts calls, and "seen" the time until it knows all duplicates.
func BenchmarkStart(b *testing.B) {
	for _, pending := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("%d pending", pending), func(b *testing.B) {
			dir := b.TempDir()
			j := open(b, jetstream.Options{Dir: dir, SyncInterval: time.Minute})
			attach(b, j, "d")
			random := rand.New(rand.NewSource(1))
			for range pending / 100 {
				ok(b, j.Append(b.Context(), realistic(random, "web", 100)))
			}
			var ready, attached, seen time.Duration
			b.ResetTimer()
			for range b.N {
				b.StopTimer()
				left := b.TempDir()
				ok(b, jetstream.CopyDir(left, dir))
				b.StartTimer()
				began := time.Now()
				k := open(b, jetstream.Options{Dir: left})
				ready += time.Since(began)
				attach(b, k, "d")
				attached += time.Since(began)
				n := 0
				ok(b, k.Seen(b.Context(), time.Time{}, 2_000_000, func(_ string, ids iter.Seq[string]) bool {
					for range ids {
						n++
					}
					return true
				}))
				seen += time.Since(began)
				if n != pending {
					b.Fatalf("%d of %d calls were seen", n, pending)
				}
				b.StopTimer()
				ok(b, k.Close())
				b.StartTimer()
			}
			for name, d := range map[string]time.Duration{"ready-ms": ready, "attached-ms": attached, "seen-ms": seen} {
				b.ReportMetric(float64(d.Microseconds())/1000/float64(b.N), name)
			}
		})
	}
}
