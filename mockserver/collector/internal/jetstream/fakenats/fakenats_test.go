package fakenats

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A side is a client of one of the two servers.
type side struct {
	*testing.T
	nc        *nats.Conn
	js        jetstream.JetStream
	delivered map[string]jetstream.Msg // last delivery of each message, keyed by stream and sequence number
	fetched   int                      // number of messages in the last fetch
	fake      *side                    // client of the fake server, if this is the client of the real server
}

// TestLikeRealServer sends the same random requests to a real server and to the fake server, and
// compares the responses. FAKE_SEED selects the requests, and FAKE_STEPS is their number.
func TestLikeRealServer(t *testing.T) {
	t.Parallel()
	seed, _ := strconv.ParseUint(os.Getenv("FAKE_SEED"), 10, 64)
	steps, _ := strconv.Atoi(os.Getenv("FAKE_STEPS"))
	sides := newSides(t)
	for step := range max(steps, 400) {
		var responses []string
		for _, s := range sides {
			responses = append(responses, s.ask(rand.New(rand.NewPCG(seed, uint64(step)))))
		}
		require.Equal(t, responses[1], responses[0], "FAKE_SEED=%d, step %d", seed, step)
	}
}

// newSides returns a client of a fake server and a client of a real server.
func newSides(t *testing.T) []*side {
	fake := New(false)
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for tick := time.NewTicker(5 * time.Millisecond); ; {
			select {
			case <-tick.C:
				fake.Tick()
			case <-stop:
				return
			}
		}
	}()
	real, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true, JetStream: true, JetStreamMaxStore: 1 << 40, StoreDir: t.TempDir()})
	require.NoError(t, err)
	real.Start()
	t.Cleanup(func() { real.Shutdown(); real.WaitForShutdown() })
	require.True(t, real.ReadyForConnections(time.Minute))
	sides := []*side{newSide(t, fake), newSide(t, real)}
	sides[1].fake = sides[0]
	return sides
}

func newSide(t *testing.T, to nats.InProcessConnProvider) *side {
	nc, err := nats.Connect("", nats.InProcessServer(to))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, config := range []jetstream.StreamConfig{
		{Name: "LOG", Subjects: []string{"log.*"}, Discard: jetstream.DiscardNew, MaxBytes: 40_000, AllowDirect: true, Duplicates: time.Hour},
		{Name: "LAST", Subjects: []string{"last.>"}, MaxMsgsPerSubject: 1, MaxBytes: 1000, Discard: jetstream.DiscardOld, AllowMsgTTL: true},
		{
			Name: "WORK", Subjects: []string{"at.*", "due.*"}, Retention: jetstream.WorkQueuePolicy, MaxMsgsPerSubject: 1,
			AllowMsgSchedules: true, AllowMsgTTL: true, AllowRollup: true, AllowDirect: true,
		},
	} {
		_, err := js.CreateStream(t.Context(), config)
		require.NoError(t, err)
	}
	return &side{T: t, nc: nc, js: js, delivered: map[string]jetstream.Msg{}}
}

// ask sends a random request. It returns the response without times.
func (s *side) ask(random *rand.Rand) string {
	n := random.IntN(100)
	name := []string{"LOG", "LAST", "WORK"}[random.IntN(3)]
	subject := map[string]string{"LOG": "log.", "LAST": "last.", "WORK": "due."}[name] + strconv.Itoa(random.IntN(5))
	stream, err := s.js.Stream(s.Context(), name)
	require.NoError(s, err)
	last := stream.CachedInfo().State.LastSeq
	seq := last - min(last, uint64(random.IntN(20)))
	switch {
	case n < 40:
		return s.publish(random, subject, seq)
	case n < 45:
		m, err := stream.GetLastMsgForSubject(s.Context(), subject)
		return s.message(m, err)
	case n < 50:
		m, err := stream.GetMsg(s.Context(), max(seq, 1))
		return s.message(m, err)
	case n < 55:
		m, err := stream.GetMsg(s.Context(), max(seq, 1), jetstream.WithGetMsgSubject(subject))
		return s.message(m, err)
	case n < 57:
		return outcome("purge", stream.Purge(s.Context(), jetstream.WithPurgeSequence(seq)))
	case n < 59:
		return outcome("purge "+subject, stream.Purge(s.Context(), jetstream.WithPurgeSubject(subject)))
	case n < 61:
		return fmt.Sprint("delete ", seq, stream.DeleteMsg(s.Context(), max(seq, 1)) == nil)
	case n < 63:
		return s.consumer(name, subject, seq)
	case n < 80:
		return s.fetch(random, name)
	case n < 90:
		return s.end(random, name, seq)
	}
	info, err := stream.Info(s.Context(), jetstream.WithDeletedDetails(true), jetstream.WithSubjectFilter(">"))
	require.NoError(s, err)
	state := info.State
	state.FirstTime, state.LastTime = time.Time{}, time.Time{}
	if state.LastSeq == 0 {
		state.FirstSeq, state.Deleted, state.NumDeleted = 0, nil, 0 // the servers differ after purging an empty stream
	}
	if name == "WORK" {
		state.Bytes = 0 // the fake server orders the headers of due messages differently
	}
	return fmt.Sprintf("%+v", state)
}

func outcome(what string, err error) string {
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		return fmt.Sprint(what, ": ", refused.ErrorCode)
	}
	return fmt.Sprint(what, ": ", err)
}

func (s *side) message(m *jetstream.RawStreamMsg, err error) string {
	if err != nil {
		return outcome("get", err)
	}
	return fmt.Sprint(m.Subject, m.Sequence, m.Header.Get("A"), len(m.Data))
}

func (s *side) publish(random *rand.Rand, subject string, seq uint64) string {
	m := nats.NewMsg(subject)
	m.Data = make([]byte, random.IntN(200))
	m.Header.Set("A", "b")
	switch random.IntN(8) {
	case 0:
		m.Header.Set(nats.ExpectedLastSeqHdr, strconv.FormatUint(seq, 10))
	case 1:
		m.Header.Set(nats.ExpectedLastSubjSeqHdr, strconv.FormatUint(seq, 10))
	case 2:
		m.Header.Set(nats.MsgIdHdr, strconv.Itoa(random.IntN(5)))
	case 3:
		if subject[0] == 'd' {
			m.Subject = "at." + subject[4:]
			m.Header.Set("Nats-Schedule", "@at "+time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
			m.Header.Set("Nats-Schedule-Target", subject)
		}
	}
	ack, err := s.js.PublishMsg(s.Context(), m)
	if err != nil {
		return outcome("publish", err)
	}
	return fmt.Sprint(ack.Stream, ack.Sequence, ack.Duplicate)
}

// consumer creates a consumer, or deletes it if it exists.
func (s *side) consumer(stream, subject string, seq uint64) string {
	c := jetstream.ConsumerConfig{
		Durable: "c", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour, MaxAckPending: 5, MaxDeliver: -1,
		FilterSubjects: []string{"due.*"},
	}
	if stream != "WORK" {
		c.FilterSubjects = []string{subject, map[string]string{"LOG": "log.7", "LAST": "last.7"}[stream]}
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, max(seq, 1)
	}
	if _, err := s.js.Consumer(s.Context(), stream, c.Durable); err == nil {
		return outcome("remove", s.js.DeleteConsumer(s.Context(), stream, c.Durable))
	}
	_, err := s.js.CreateConsumer(s.Context(), stream, c)
	return outcome("create", err)
}

// fetch requests messages, and keeps them so that they can be acknowledged later.
func (s *side) fetch(random *rand.Rand, stream string) string {
	c, err := s.js.Consumer(s.Context(), stream, "c")
	if err != nil {
		return outcome("fetch", err)
	}
	n := 1 + random.IntN(4)
	var got string
	take := func(batch jetstream.MessageBatch, err error) {
		require.NoError(s, err)
		for m := range batch.Messages() {
			meta, err := m.Metadata()
			require.NoError(s, err)
			s.delivered[fmt.Sprint(stream, meta.Sequence.Stream)] = m
			s.fetched++
			got += fmt.Sprintf("%s %d, %d times; ", m.Subject(), meta.Sequence.Stream, meta.NumDelivered)
		}
		got += fmt.Sprint(batch.Error())
	}
	s.fetched = 0
	if s.fake != nil && s.fake.fetched > 0 {
		// A real server only counts a message some time after acknowledging it.
		n = s.fake.fetched
		take(c.Fetch(n, jetstream.FetchMaxWait(10*time.Second)))
	} else {
		take(c.FetchNoWait(n))
	}
	return got
}

// end acknowledges or rejects a message.
func (s *side) end(random *rand.Rand, stream string, seq uint64) string {
	c, err := s.js.Consumer(s.Context(), stream, "c")
	if err != nil {
		return outcome("end", err)
	}
	key := fmt.Sprint(stream, seq)
	m := s.delivered[key]
	if m == nil {
		return "nothing to end"
	}
	delete(s.delivered, key)
	if random.IntN(3) == 0 {
		require.NoError(s, m.Nak())
	} else {
		require.NoError(s, m.Ack())
	}
	require.NoError(s, s.nc.Flush())
	_, err = c.Info(s.Context()) // the server responds to this request after the acknowledgement
	return outcome("ended", err)
}

// TestMatchesLikeRealServer compares the matching of subjects with the function of the real server.
func TestMatchesLikeRealServer(t *testing.T) {
	t.Parallel()
	patterns := []string{">", "*", "a", "b", "a.>", "*.>", "a.*", "*.b", "a.b", "a.b.>", "a.*.c", "*.*.*", "$KV.a.>"}
	for _, subject := range []string{"a", "b", "ab", "a.b", "a.c", "b.b", "a.b.c", "a.c.c", "a.b.c.d", "$KV.a.b", "$KV.a"} {
		for _, pattern := range patterns {
			require.Equal(t, server.SubjectMatchesFilter(subject, pattern), matches(subject, pattern), "%s, %s", subject, pattern)
		}
	}
}

// TestSchedulesAndTTLs checks that messages become due and expire.
func TestSchedulesAndTTLs(t *testing.T) {
	fake := New(false)
	s := newSide(t, fake)
	at := func(d time.Duration) string { return "@at " + time.Now().Add(d).UTC().Format(time.RFC3339Nano) }
	for i, d := range []time.Duration{time.Hour, -time.Second} {
		m := nats.NewMsg(fmt.Sprint("at.", i))
		m.Header.Set("Nats-Schedule", at(d))
		m.Header.Set("Nats-Schedule-Target", fmt.Sprint("due.", i))
		_, err := s.js.PublishMsg(t.Context(), m)
		require.NoError(t, err)
	}
	m := nats.NewMsg("last.x")
	m.Header.Set(nats.MsgTTLHdr, "1ns")
	_, err := s.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	fake.Tick()
	work, err := s.js.Stream(t.Context(), "WORK")
	require.NoError(t, err)
	info, err := work.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	require.Equal(t, map[string]uint64{"at.0": 1, "due.1": 1}, info.State.Subjects)
	last, err := s.js.Stream(t.Context(), "LAST")
	require.NoError(t, err)
	require.Zero(t, last.CachedInfo().State.Msgs)
}

// TestBoundedPullsLikeRealServer requests messages with a limit in bytes.
func TestBoundedPullsLikeRealServer(t *testing.T) {
	t.Parallel()
	sides := newSides(t)
	for _, maxBytes := range []int{50, 300, 400, 700, 1000, 1500} {
		var responses []string
		for _, s := range sides {
			responses = append(responses, s.pull(100, maxBytes)+s.pull(2, maxBytes))
		}
		require.Equal(t, responses[1], responses[0], "%d bytes", maxBytes)
	}
}

// pull returns the results of two bounded pulls: one leaves messages in the stream, and one
// reaches its limit exactly.
func (s *side) pull(messages, maxBytes int) (got string) {
	stream, err := s.js.Stream(s.Context(), "LOG")
	require.NoError(s, err)
	require.NoError(s, stream.Purge(s.Context()))
	for i := range 8 {
		_, err := s.js.Publish(s.Context(), "log.1", make([]byte, 100*(i%3+1)))
		require.NoError(s, err)
	}
	c, err := stream.CreateConsumer(s.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	require.NoError(s, err)
	next := "$JS.API.CONSUMER.MSG.NEXT.LOG." + c.CachedInfo().Name
	inbox, err := s.nc.SubscribeSync(s.nc.NewInbox())
	require.NoError(s, err)
	ask := func(maxBytes int) (bytes int) {
		require.NoError(s, s.nc.PublishRequest(next, inbox.Subject, fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":60000000000}`, messages, maxBytes)))
		for bytes != maxBytes {
			m, err := inbox.NextMsg(time.Minute)
			require.NoError(s, err)
			if m.Header.Get("Status") != "" {
				got += fmt.Sprint(m.Header, "; ")
				return bytes
			}
			got += fmt.Sprint(len(m.Data), " ")
			bytes += m.Size()
		}
		return bytes
	}
	bytes := ask(maxBytes)
	if bytes == 0 {
		return got
	}
	require.NoError(s, s.js.DeleteConsumer(s.Context(), "LOG", c.CachedInfo().Name))
	c, err = stream.CreateConsumer(s.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy})
	require.NoError(s, err)
	next = "$JS.API.CONSUMER.MSG.NEXT.LOG." + c.CachedInfo().Name
	ask(bytes)
	info, err := c.Info(s.Context())
	require.NoError(s, err)
	return got + fmt.Sprint(info.NumWaiting, " waiting")
}

// TestPositionsLikeRealServer compares the positions that heartbeats report after the last message.
func TestPositionsLikeRealServer(t *testing.T) {
	t.Parallel()
	future := time.Now().Add(time.Hour)
	sides := newSides(t)
	for _, s := range sides {
		s.storeAndRemove()
	}
	for name, c := range map[string]jetstream.ConsumerConfig{
		"all":               {},
		"one subject":       {FilterSubjects: []string{"log.0"}},
		"several subjects":  {FilterSubjects: []string{"log.0", "log.7"}},
		"no message":        {FilterSubjects: []string{"log.7"}},
		"since the future":  {DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &future},
		"from message 3 on": {DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 3},
		"from message 6 on": {DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: 6},
	} {
		var responses []string
		for _, s := range sides {
			responses = append(responses, s.position(c))
		}
		require.Equal(t, responses[1], responses[0], name)
		require.Contains(t, responses[0], " 6", name)
	}
}

// storeAndRemove stores six messages in LOG and removes the last two.
func (s *side) storeAndRemove() {
	for i := range 6 {
		_, err := s.js.Publish(s.Context(), fmt.Sprint("log.", i%2), nil)
		require.NoError(s, err)
	}
	stream, err := s.js.Stream(s.Context(), "LOG")
	require.NoError(s, err)
	require.NoError(s, stream.DeleteMsg(s.Context(), 5))
	require.NoError(s, stream.DeleteMsg(s.Context(), 6))
}

// TestLastLikeRealServer compares the last messages of subjects. For the subject ">", there is none if the
// message with the last sequence number was removed.
func TestLastLikeRealServer(t *testing.T) {
	t.Parallel()
	sides := newSides(t)
	for _, s := range sides {
		s.storeAndRemove()
	}
	for subject, want := range map[string]string{"log.0": `"seq":3,`, "log.1": `"seq":4,`, "*.>": `"seq":4,`, ">": `"code":404`} {
		for i, s := range sides {
			m, err := s.nc.Request("$JS.API.STREAM.MSG.GET.LOG", []byte(`{"last_by_subj":"`+subject+`"}`), time.Minute)
			require.NoError(s, err)
			require.Contains(s, string(m.Data), want, "%s at server %d", subject, i)
		}
	}
}

// position returns the position in the first heartbeat of a new consumer.
func (s *side) position(config jetstream.ConsumerConfig) string {
	config.AckPolicy, config.MemoryStorage, config.Replicas = jetstream.AckNonePolicy, true, 1
	c, err := s.js.CreateConsumer(s.Context(), "LOG", config)
	require.NoError(s, err)
	inbox, err := s.nc.SubscribeSync(s.nc.NewInbox())
	require.NoError(s, err)
	request := []byte(`{"batch":100,"expires":60000000000,"idle_heartbeat":50000000}`)
	require.NoError(s, s.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.LOG."+c.CachedInfo().Name, inbox.Subject, request))
	for {
		m, err := inbox.NextMsg(time.Minute)
		require.NoError(s, err)
		if m.Header.Get("Status") == "100" {
			return m.Header.Get("Nats-Last-Consumer") + " " + m.Header.Get("Nats-Last-Stream")
		}
	}
}
