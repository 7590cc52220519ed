package store

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/fakenats"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
)

// removing removes a message when a scan has determined its end.
type removing struct {
	Streams
	seq uint64
}

func (r removing) CreateConsumer(ctx context.Context, stream string, config jetstream.ConsumerConfig) (Consumer, error) {
	_ = r.Delete(ctx, stream, r.seq) // fails the second time
	return r.Streams.CreateConsumer(ctx, stream, config)
}

// TestScanReadsStreamAsOfStart scans streams of a cluster. The server that delivers the messages lags
// behind for a while. The stream contains six messages, one per second, with the subjects a and b in turn.
func TestScanReadsStreamAsOfStart(t *testing.T) {
	const lag = 20 * time.Second
	known := func(record.Span) bool { return true }
	unknown := func(record.Span) bool { return false }
	for name, test := range map[string]struct {
		empty   bool
		lags    uint64 // messages that the server does not have yet
		removed uint64 // message that is removed before the scan
		removes uint64 // message that is removed during the scan
		since   time.Duration
		scan    Selection
		want    []uint64
		damaged bool
		soon    bool // whether the scan does not wait for the server
		atOnce  bool // whether the scan does not wait for a heartbeat
	}{
		"no messages":                           {empty: true, soon: true},
		"all messages":                          {want: []uint64{1, 2, 3, 4, 5, 6}, soon: true},
		"a lagging server":                      {lags: 3, want: []uint64{1, 2, 3, 4, 5, 6}},
		"a server without messages":             {lags: 6, want: []uint64{1, 2, 3, 4, 5, 6}},
		"selected":                              {scan: Selection{Subjects: []string{"s.b"}}, want: []uint64{2, 4, 6}, soon: true},
		"selected, lagging":                     {lags: 1, scan: Selection{Subjects: []string{"s.b"}}, want: []uint64{2, 4, 6}},
		"the last one is not selected":          {scan: Selection{Subjects: []string{"s.a"}}, want: []uint64{1, 3, 5}, soon: true},
		"the last one is not selected, lagging": {lags: 3, scan: Selection{Subjects: []string{"s.a"}}, want: []uint64{1, 3, 5}},
		"the last one is removed":               {removes: 6, want: []uint64{1, 2, 3, 4, 5}, soon: true},
		"the last one is removed, lagging":      {removes: 6, lags: 3, want: []uint64{1, 2, 3, 4, 5}},
		"the last one was removed":              {removed: 6, want: []uint64{1, 2, 3, 4, 5}, soon: true, atOnce: true},
		"the last one was removed, lagging":     {removed: 6, lags: 3, want: []uint64{1, 2, 3, 4, 5}},
		"the last one was removed, selected":    {removed: 6, scan: Selection{Subjects: []string{"s.a"}}, want: []uint64{1, 3, 5}, soon: true, atOnce: true},
		"a selected last one was removed":       {removed: 6, scan: Selection{Subjects: []string{"s.b"}}, want: []uint64{2, 4}, soon: true, atOnce: true},
		"the middle was removed":                {removed: 4, scan: Selection{Subjects: []string{"s.b"}, Last: 4}, want: []uint64{2}, soon: true, atOnce: true},
		"the marker is removed":                 {removes: 6, scan: Selection{Subjects: []string{"s.a"}}, want: []uint64{1, 3, 5}, soon: true},
		"the marker is removed, lagging":        {removes: 6, lags: 3, scan: Selection{Subjects: []string{"s.a"}}, want: []uint64{1, 3, 5}},
		"the last one must exist":               {removes: 6, scan: Selection{Whole: unknown, Must: true, Last: 6}, want: []uint64{1, 2, 3, 4, 5}, damaged: true, soon: true},
		"the last one may be missing":           {removes: 6, scan: Selection{Whole: known, Must: true, Last: 6}, want: []uint64{1, 2, 3, 4, 5}, soon: true},
		"up to the middle":                      {scan: Selection{Last: 4}, want: []uint64{1, 2, 3, 4}, soon: true},
		"up to the middle, removed":             {removes: 4, scan: Selection{Last: 4}, want: []uint64{1, 2, 3}, soon: true},
		"since the middle":                      {since: 3500 * time.Millisecond, want: []uint64{5, 6}, soon: true},
		"since the middle, lagging":             {since: 3500 * time.Millisecond, lags: 5, want: []uint64{5, 6}},
		"since now":                             {since: 10 * time.Second, soon: true},
		"since now, lagging":                    {since: 10 * time.Second, lags: 1},
		"since the future":                      {since: time.Hour, soon: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("test", true, slog.New(slog.DiscardHandler))
				defer s.Cancel(nil)
				s.Status.Up()
				server := fakenats.New(false)
				defer server.Stop()
				nc, err := nats.Connect("", nats.InProcessServer(server), nats.NoReconnect())
				require.NoError(t, err)
				defer nc.Close()
				s.JS, err = Connected(nc)
				require.NoError(t, err)
				stream := s.Names.Stream(record.StreamState)
				require.NoError(t, s.JS.Create(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"s.*"}}))
				began := time.Now()
				for i := range 6 {
					if !test.empty {
						_, err := s.JS.Publish(t.Context(), &nats.Msg{Subject: []string{"s.a", "s.b"}[i%2]})
						require.NoError(t, err)
					}
					time.Sleep(time.Second)
				}
				if test.removed > 0 {
					require.NoError(t, s.JS.Delete(t.Context(), stream, test.removed))
				}
				if test.removes > 0 {
					s.JS = removing{s.JS, test.removes}
				}
				server.Lag(test.lags)
				timer := time.AfterFunc(lag, func() { server.Lag(0) })
				defer timer.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				go server.Run(ctx, 100*time.Millisecond)
				defer time.Sleep(100 * time.Millisecond)
				defer cancel()

				var got []uint64
				scan := s.Tail(record.StreamState, 1, func(m *jetstream.RawStreamMsg) error {
					got = append(got, m.Sequence)
					return nil
				})
				scan.Subjects, scan.Whole, scan.Must = test.scan.Subjects, test.scan.Whole, test.scan.Must
				if test.scan.Last > 0 {
					scan.Last = test.scan.Last
				}
				if test.since > 0 {
					scan.Next, scan.Since = 0, began.Add(test.since)
				}
				start := time.Now()
				err = scan.Scan(ctx)
				if test.damaged {
					require.ErrorIs(t, err, record.ErrDamaged)
				} else {
					require.NoError(t, err)
				}
				assert.Equal(t, test.want, got)
				assert.Equal(t, test.soon, time.Since(start) < lag)
				if test.atOnce {
					assert.Less(t, time.Since(start), scan.heartbeat)
				}
			})
		})
	}
}
