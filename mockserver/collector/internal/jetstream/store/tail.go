package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A Selection selects the messages that a tail reads, and the gaps that count as corruption.
type Selection struct {
	Stream      string
	Server      string   // server of a cluster that provides the messages; empty for any server
	Subjects    []string // empty for all subjects
	HeadersOnly bool
	Since       time.Time // start time, if Tail.Next is 0
	Batch       int       // messages per request
	Last        uint64    // last message that a scan reads
	Must        bool      // whether a scan waits for Last if the stream ends before Last; must be false if Server or Subjects is set
	// Whole, if not nil, reports whether a gap in the sequence numbers is expected. Any other
	// gap is corruption. If Whole is set, Subjects must be empty.
	Whole func(gap record.Span) bool
	// Paused, if not nil, reports whether messages that were received must be read again later.
	Paused func() bool
}

// A Tail reads the messages of a stream in order, starting with Next. It reads each message once. If its
// server stops, it creates another consumer and continues.
type Tail struct {
	Selection        // must not change while the tail runs
	Next      uint64 // sequence number of the next message
	store     *Store
	heartbeat time.Duration
	// handle handles a message. The tail stops if handle returns an error. If the error is
	// ErrEnough, the tail returns nil.
	handle func(m *jetstream.RawStreamMsg) error

	logged time.Duration // see logTrouble
	misses int           // number of consumers that were created on the wrong server
	stalls int           // number of consumers in a row that stopped delivering at Next
	end    uint64        // a scan ends when it has passed this message
	marker string        // set by aim: subject of message number end, if this message must not be handled
}

// Tail returns a tail that calls handle with each message of a stream, starting with
// message next.
func (s *Store) Tail(kind string, next uint64, handle func(m *jetstream.RawStreamMsg) error) *Tail {
	t := &Tail{
		Selection: Selection{Stream: s.Names.Stream(kind), Batch: 1000, Last: math.MaxUint64},
		Next:      next, store: s, heartbeat: 5 * time.Second, handle: handle,
	}
	if s.Shared {
		t.heartbeat = time.Second // to detect sooner that the consumer's server has stopped
	}
	return t
}

// TailCalls returns a tail of CALLS that reads only headers.
func (s *Store) TailCalls(next uint64, handle func(m *record.Calls) error) *Tail {
	t := s.Tail(record.StreamCalls, next, func(m *jetstream.RawStreamMsg) error {
		parsed, err := s.Names.ParseCalls(m)
		if err != nil {
			return err
		}
		return handle(parsed)
	})
	t.HeadersOnly = true
	return t
}

// TailOutcomes returns a tail of OUTCOMES.
func (s *Store) TailOutcomes(next uint64, handle func(m *record.Outcomes) error) *Tail {
	return s.Tail(record.StreamOutcomes, next, func(m *jetstream.RawStreamMsg) error {
		parsed, err := record.ParseOutcomes(m)
		if err != nil {
			return err
		}
		return handle(parsed)
	})
}

// TailFailed returns a tail of the FAILED messages of a destination, or of all destinations if the token
// is "*".
func (s *Store) TailFailed(token string, next uint64, handle func(m *record.FailedMessage) error) *Tail {
	t := s.Tail(record.StreamFailed, next, func(m *jetstream.RawStreamMsg) error {
		parsed, err := s.Names.ParseFailed(m)
		if err != nil {
			return err
		}
		return handle(parsed)
	})
	t.Subjects, t.Batch = []string{s.Names.Subject("f", token, "*")}, 64
	return t
}

// logTrouble logs the error of a tail that has been unable to read for the duration since. The level is
// Debug, except for one warning every WarnEvery, unless the store is known to be down.
func (t *Tail) logTrouble(err error, since time.Duration) {
	t.logged = min(t.logged, since) // a smaller value of since means that the problem is new
	level := slog.LevelDebug
	if _, down := t.store.Status.Writable(); down == nil && since-t.logged >= WarnEvery {
		t.logged, level = since, slog.LevelWarn
	}
	t.store.Log.Log(context.Background(), level, "reading a stream failed; retrying", "stream", t.Stream, "for", since.Round(time.Second), "error", err)
}

// ErrEnough stops a tail without an error.
var ErrEnough = errors.New("enough")

// A handlerError wraps an error of handle, which stops the tail.
type handlerError struct{ error }

func (e handlerError) Unwrap() error { return e.error }

// Follow reads messages until ctx ends, the journal is closed, or handle returns an error.
func (t *Tail) Follow(ctx context.Context) error { return t.run(ctx, false) }

// Scan reads the messages that are in the stream now, up to Last. It may also read messages that are
// stored during the scan. It returns journal.ErrClosed if the journal is closed.
//
// On a cluster, the server that delivers the messages may have fewer messages without knowing it. A scan
// therefore ends when it has passed the last message that the leader had at the start, even if that
// message is not selected or is removed during the scan. If Whole is set, the scan also covers removed
// messages at the end, to check the gap. If Server is set, it ends at the end of that server's copy.
func (t *Tail) Scan(ctx context.Context) error {
	if t.end = t.Last; t.Next > t.end {
		return nil
	}
	if t.store.Shared {
		if done, err := t.aim(ctx); done || err != nil {
			return err
		}
	}
	return t.run(ctx, true)
}

// aim determines the last message of a scan. If Subjects excludes this message, aim adds its subject to
// the filter, so that the scan need not wait for a heartbeat.
func (t *Tail) aim(ctx context.Context) (done bool, err error) {
	if t.Must {
		return false, nil
	}
	info, err := t.store.JS.Info(ctx, t.Stream)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", t.Stream, err)
	}
	state := info.State
	t.end = min(t.Last, state.LastSeq)
	switch {
	case t.end == 0 || t.Next > t.end || state.Msgs == 0:
		return true, nil
	case t.Whole != nil || len(t.Subjects) == 0 && state.NumDeleted == 0:
		return false, nil
	}
	m, err := t.store.JS.Get(ctx, t.Stream, t.end)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // it was removed; for ">", the server would find nothing then
		m, err = t.store.JS.Last(ctx, t.Stream, "*.>")
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // all messages were removed
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading %s: %w", t.Stream, err)
	case len(t.Subjects) > 0 && !slices.ContainsFunc(t.Subjects, func(s string) bool { return server.SubjectMatchesFilter(m.Subject, s) }):
		t.marker = m.Subject
	}
	t.end = min(t.end, m.Sequence)
	return t.Next > t.end, nil
}

// End returns the last message that a finished scan has covered.
func (t *Tail) End() uint64 { return t.end }

func (t *Tail) run(ctx context.Context, finite bool) error {
	ctx, cancel := t.store.untilClosed(ctx)
	defer cancel()
	var failing time.Time // when reading started to fail
	for {
		began, next := time.Now(), t.Next
		err := t.session(ctx, finite)
		handler, isHandler := errors.AsType[handlerError](err)
		switch {
		case errors.Is(err, ErrEnough):
			return nil
		case isHandler:
			return handler.error
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if failing.IsZero() || t.Next != next || time.Since(began) > WarnEvery {
			failing = time.Now()
		}
		t.logTrouble(err, time.Since(failing))
		if pause.For(ctx, 100*time.Millisecond) != nil {
			return context.Cause(ctx)
		}
	}
}

// WarnEvery is the interval of warnings about a stream that cannot be read.
const WarnEvery = 10 * time.Second

// session reads messages with one consumer until an error occurs. If finite is true, it returns
// ErrEnough after the last message.
func (t *Tail) session(ctx context.Context, finite bool) error {
	config := jetstream.ConsumerConfig{
		Description: "reads in order", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.Next,
		FilterSubjects: t.Subjects, HeadersOnly: t.HeadersOnly, InactiveThreshold: time.Minute,
	}
	if t.marker != "" {
		config.FilterSubjects = append(slices.Clip(t.Subjects), t.marker)
	}
	if t.Next == 0 {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &t.Since
	}
	link := t.store.Link.Load() // requests on a lost connection never get a response
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(link.Lost, cancel)()
	consumer, err := t.create(ctx, config)
	if err != nil {
		return fmt.Errorf("reading %s: %w", t.Stream, err)
	}
	info := consumer.CachedInfo()
	defer func() {
		consumer.Stop()
		if link.Lost.Err() == nil {
			_ = t.store.JS.DeleteConsumer(context.WithoutCancel(ctx), t.Stream, info.Name) // if this fails, the server deletes the consumer later
		}
	}()
	if finite && info.NumPending == 0 && !t.store.Shared {
		return ErrEnough
	}
	r := reading{Tail: t, consumer: consumer, finite: finite}
	for {
		if err := r.fetch(ctx); err != nil {
			return err
		}
	}
}

func (t *Tail) create(ctx context.Context, config jetstream.ConsumerConfig) (Consumer, error) {
	if t.store.Shared {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, QueryTimeout)
		defer cancel()
	}
	consumer, err := t.store.JS.CreateConsumer(ctx, t.Stream, config)
	if err != nil || t.Server == "" {
		return consumer, err
	}
	// The cluster chooses a server with a copy of the stream at random.
	if cluster := consumer.CachedInfo().Cluster; cluster == nil || cluster.Leader != t.Server {
		_ = t.store.JS.DeleteConsumer(ctx, t.Stream, consumer.CachedInfo().Name)
		if t.misses++; t.misses > maxMisses {
			return nil, handlerError{fmt.Errorf("reading %s: %s does not deliver it", t.Stream, t.Server)}
		}
		return nil, errOtherServer
	}
	return consumer, nil
}

// maxMisses limits how often a consumer may be created on the wrong server.
const maxMisses = 100

var errOtherServer = errors.New("the consumer is on another server")

// A reading reads messages with one consumer.
type reading struct {
	*Tail
	consumer  Consumer
	finite    bool
	batch     Batch            // the current request
	messages  <-chan *nats.Msg // messages of the current request
	delivered uint64           // number of received messages
	cleared   int              // number of messages that were received before the last call of Paused and are not handled yet
}

// fetch requests messages and handles them.
func (r *reading) fetch(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, 60*r.heartbeat)
	defer cancel()
	batch, err := r.consumer.Fetch(limited, r.Batch, r.heartbeat)
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.Stream, err)
	}
	r.batch, r.messages, r.cleared = batch, batch.Messages(), 0
	for {
		m, err := r.next(ctx)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil: // the message may come from a lost connection
			return ctx.Err()
		case m != nil:
			if err := r.take(m); err != nil {
				return err
			}
		case batch.Error() != nil && limited.Err() == nil:
			return fmt.Errorf("reading %s: %w", r.Stream, batch.Error())
		default:
			return nil
		}
	}
}

// next returns the next message, or nil at the end of the batch.
func (r *reading) next(ctx context.Context) (*nats.Msg, error) {
	select {
	case m := <-r.messages:
		return m, nil
	default:
	}
	for {
		var silent <-chan time.Time
		if r.finite || r.Whole != nil && r.store.Shared {
			silent = time.After(3 * r.heartbeat) // if the request was lost, the batch ends earlier with ErrNoHeartbeat
		}
		select {
		case m := <-r.messages:
			return m, nil
		case <-silent:
			if err := r.checkStall(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// take handles a message.
func (r *reading) take(m *nats.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	seq := meta.Sequence.Stream
	if r.isPaused() {
		return fmt.Errorf("reading %s: message %d may not be on the disk", r.Stream, seq)
	}
	if r.delivered++; meta.Sequence.Consumer != r.delivered {
		return fmt.Errorf("reading %s: a message is missing", r.Stream)
	}
	if err := r.checkGap(seq - 1); err != nil {
		return err
	}
	if r.finite && seq > r.Last {
		return ErrEnough
	}
	if (r.marker == "" || m.Subject != r.marker) && !meta.Timestamp.Before(r.Since) {
		stored := &jetstream.RawStreamMsg{Subject: m.Subject, Sequence: seq, Header: m.Header, Data: m.Data, Time: meta.Timestamp}
		if err := r.handle(stored); err != nil {
			return handlerError{err}
		}
	}
	r.Next, r.stalls = seq+1, 0
	if atEnd := meta.NumPending == 0; r.finite && (atEnd && !r.store.Shared || seq >= r.end) {
		return ErrEnough
	}
	return nil
}

// checkGap returns an error if the messages from Next to last should have been delivered.
func (r *reading) checkGap(last uint64) error {
	if gap := (record.Span{First: r.Next, Last: last}); r.Whole != nil && gap.First <= gap.Last && !r.Whole(gap) {
		return handlerError{record.Damaged("messages %d to %d of %s cannot be read", gap.First, gap.Last, r.Stream)}
	}
	return nil
}

// isPaused reports whether reading is paused. It calls Paused once for all messages that have been
// received.
func (r *reading) isPaused() bool {
	if r.Paused == nil {
		return false
	}
	if r.cleared--; r.cleared >= 0 {
		return false
	}
	waiting := len(r.messages) // counted before Paused, because the result does not apply to messages that arrive later
	if r.Paused() {
		return true
	}
	r.cleared = waiting
	return false
}

// checkStall determines why a reading receives no messages. For a finite reading, it returns ErrEnough at the end
// of the scan, and an error if the server does not have the remaining messages or cannot read them. The server
// caches NumPending, and may still count messages that were removed. The messages are therefore corrupt only
// if a second consumer does not deliver them either. For any other reading, checkStall checks for a gap, because
// the newest messages may have been removed.
func (r *reading) checkStall(ctx context.Context) error {
	delivered, passed := r.batch.Position()
	hasAll := delivered == r.delivered
	switch {
	case r.finite && hasAll && passed >= r.end:
		return cmp.Or(r.checkGap(r.end), ErrEnough)
	case !r.finite && hasAll && passed >= r.Next:
		err := r.checkGap(passed)
		r.Next = passed + 1
		return err
	case !r.finite:
		return nil
	}
	info, err := r.consumer.Info(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading %s: %w", r.Stream, err)
	case info.NumPending == 0 && r.store.Shared && r.Server == "":
		return fmt.Errorf("reading %s: the server has not reached message %d", r.Stream, r.end)
	case info.NumPending == 0:
		return ErrEnough
	case info.Delivered.Consumer > r.delivered:
		return nil // messages are in transit
	}
	if r.stalls++; r.stalls == 1 {
		return fmt.Errorf("reading %s: %d messages from %d on do not arrive", r.Stream, info.NumPending, r.Next)
	}
	return handlerError{record.Damaged("%d messages of %s from %d on cannot be read", info.NumPending, r.Stream, r.Next)}
}
