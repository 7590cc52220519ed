package analytics

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A call with attributes does not move the message, its attributes or their values to the heap.
func TestAttributesAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector empties pools")
	}
	client := silentClient(t, Config{})
	id, total, n, at := "user-1", 25.5, int64(3), time.Now()
	for name, call := range map[string]func() error{
		"3 attributes": func() error {
			return client.Track(&Track{UserId: id, Event: "Order Completed", Attrs: []slog.Attr{
				slog.String("orderId", id), slog.Float64("total", total), slog.Bool("first", true),
			}})
		},
		"8 attributes": func() error {
			return client.Track(&Track{UserId: id, Event: "Order Completed", Attrs: []slog.Attr{
				slog.String("orderId", id), slog.Float64("total", total), slog.String("currency", "EUR"),
				slog.Int64("items", n), slog.String("coupon", id), slog.Bool("first", true),
				slog.Time("at", at), slog.Duration("took", time.Second),
			}})
		},
		"20 attributes": func() error {
			return client.Track(&Track{UserId: id, Event: "Order Completed", Attrs: []slog.Attr{
				slog.String("a", id), slog.Float64("b", total), slog.String("c", "EUR"), slog.Int64("d", n),
				slog.String("e", id), slog.Bool("f", true), slog.Time("g", at), slog.Duration("h", time.Second),
				slog.String("i", id), slog.Float64("j", total), slog.String("k", "EUR"), slog.Int64("l", n),
				slog.String("m", id), slog.Bool("n", true), slog.Time("o", at), slog.Duration("p", time.Second),
				slog.String("q", id), slog.Float64("r", total), slog.String("s", "EUR"), slog.Int64("t", n),
			}})
		},
		"Enqueue": func() error {
			return client.Enqueue(context.Background(), &Page{UserId: id, Attrs: []slog.Attr{
				slog.String("path", id), slog.Int64("n", n),
			}})
		},
		"Identify": func() error {
			return client.Identify(&Identify{UserId: id, Attrs: []slog.Attr{
				slog.String("name", id), slog.Int64("n", n),
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var err error
			allocs := testing.AllocsPerRun(1000, func() { err = call() })
			require.NoError(t, err)
			require.Zero(t, allocs)
		})
	}
}
