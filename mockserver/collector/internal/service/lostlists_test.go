package service_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A listSample is a data directory that contains a list that was sent, a list that was not sent
// and a deletion request that was not sent.
type listSample struct {
	dir                    string
	first, second, deleted []string // user IDs
	sync                   string   // ID of the sync of the second list
	records                []stateRecord
}

// A stateRecord is a record in a block of the state bucket.
type stateRecord struct {
	file     string
	from, to int
	key      string
	value    []byte
	live     bool // whether the record is the latest with its key
}

// A shutJournal is a journal that rejects calls while it is shut. Its Close method does not
// close the underlying journal.
type shutJournal struct {
	*jetstream.Journal
	shut atomic.Bool
}

func (j *shutJournal) Append(ctx context.Context, b event.Batch) error {
	if j.shut.Load() {
		return journal.ErrFull
	}
	return j.Journal.Append(ctx, b)
}

func (j *shutJournal) Close() error { return nil }

// A listReceiver is a webhook that counts notifications.
type listReceiver struct {
	mu      sync.Mutex // guards notices
	notices map[string]int
}

func (r *listReceiver) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var n struct {
		Type, UserID string
		Traits       map[string]any
	}
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices[fmt.Sprintf("%s %s %v", n.Type, n.UserID, n.Traits["vip"])]++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// take returns the distinct notifications since the last call of take, sorted.
func (r *listReceiver) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := slices.Sorted(maps.Keys(r.notices))
	r.notices = map[string]int{}
	return taken
}

func startLists(t *testing.T, j *jetstream.Journal, receiver *listReceiver) (*engine.Collector, *shutJournal) {
	t.Helper()
	store := j.State()
	wrapped := &shutJournal{Journal: j}
	c, err := engine.New(engine.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "key"}},
		Destinations: []tracking.Destination{{
			Name: "crm", Settings: webhook.Settings{Webhooks: []webhook.Endpoint{{URL: "http://crm"}}},
		}},
		Sender: webhook.SenderConfig{Transport: receiver}, Journal: wrapped, State: store, Instance: "one",
		Logger: slog.New(slog.DiscardHandler), TempDir: t.TempDir(),
	})
	require.NoError(t, err)
	return c, wrapped
}

func vips(ids []string) users.SyncRequest {
	return users.SyncRequest{Kind: users.KindAudience, Name: "VIP", List: strings.NewReader(strings.Join(ids, "\n"))}
}

// settled waits until no call is pending.
func settled(t *testing.T, ctx context.Context, c *engine.Collector) {
	t.Helper()
	for {
		changed := c.History().Changed()
		ledgers, err := c.Ledger(ctx)
		require.NoError(t, err)
		if len(ledgers) == 1 && ledgers[0].Pending == 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("calls are still pending: %+v", ledgers)
		}
	}
}

// awaitRecord waits until done returns true after a change of a record.
func awaitRecord(t *testing.T, c *engine.Collector, key string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	changes, err := c.StateStore().Watch(ctx, key)
	require.NoError(t, err)
	for !done() {
		_, more := <-changes
		require.True(t, more, "%s does not change", key)
	}
}

// awaitSync waits until all calls of a sync are in the journal.
func awaitSync(t *testing.T, c *engine.Collector, id string) (s users.Sync, err error) {
	t.Helper()
	computation, _, _ := strings.Cut(id, "-")
	awaitRecord(t, c, "computation."+computation, func() bool {
		s, err = c.Users().Sync(t.Context(), id)
		return s.State == users.SyncDone || err != nil
	})
	return s, err
}

// awaitDeletion waits until every notification of a deletion request has ended.
func awaitDeletion(t *testing.T, c *engine.Collector, id string) (d users.Deletion) {
	t.Helper()
	awaitRecord(t, c, "deletion."+text.Digest(id), func() bool {
		var err error
		d, err = c.Users().Deletion(t.Context(), id)
		require.NoError(t, err)
		return d.LostRecord || !d.CompletedAt.IsZero()
	})
	return d
}

// newListSample creates lists of n users.
func newListSample(t *testing.T, n int) *listSample {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s := &listSample{dir: t.TempDir()}
	random := rand.New(rand.NewSource(1))
	for i := range n + n/10 {
		id := make([]byte, 32*9000/n)
		random.Read(id)
		member := fmt.Sprintf("%x", id)
		if i < n {
			s.first = append(s.first, member)
		}
		if i >= n/10 {
			s.second = append(s.second, member)
		}
	}
	for i := range n {
		s.deleted = append(s.deleted, fmt.Sprintf("user-%06d", i))
	}
	dir := t.TempDir()
	j, err := jetstream.Open(ctx, jetstream.Options{Dir: dir})
	require.NoError(t, err)
	c, wrapped := startLists(t, j, &listReceiver{notices: map[string]int{}})
	sent, err := c.Users().StartSync(ctx, vips(s.first))
	require.NoError(t, err)
	_, err = awaitSync(t, c, sent.ID)
	require.NoError(t, err)
	settled(t, ctx, c)
	wrapped.shut.Store(true)
	sent, err = c.Users().StartSync(ctx, vips(s.second))
	require.NoError(t, err)
	s.sync = sent.ID
	_, err = c.Users().DeleteUsers(ctx, users.DeletionRequest{ID: "gdpr", UserIDs: s.deleted})
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, os.CopyFS(s.dir, os.DirFS(dir))) // simulates a kill by copying the directory of a running journal
	require.NoError(t, j.Close())
	s.readRecords(t)
	return s
}

// readRecords reads the records of the state bucket.
func (s *listSample) readRecords(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "jetstream", "$G", "streams", "KV_analytics-state", "msgs", "*.blk"))
	require.NoError(t, err)
	last := map[string]int{}
	for _, file := range files {
		block, err := os.ReadFile(file)
		require.NoError(t, err)
		name, err := filepath.Rel(s.dir, file)
		require.NoError(t, err)
		for at := 0; at < len(block); {
			length := binary.LittleEndian.Uint32(block[at:])
			r := stateRecord{file: name, from: at, to: at + int(length&^(1<<31))}
			body := block[at+22 : r.to-8]
			subject := int(binary.LittleEndian.Uint16(block[at+20:]))
			r.key, body = strings.TrimPrefix(string(body[:subject]), "$KV.analytics-state."), body[subject:]
			if length>>31 == 1 {
				body = body[4+binary.LittleEndian.Uint32(body):]
			}
			r.value = slices.Clone(body)
			last[r.key] = len(s.records)
			s.records = append(s.records, r)
			at = r.to
		}
	}
	require.NotEmpty(t, s.records)
	for _, i := range last {
		s.records[i].live = true
	}
}

// usersOf returns the user IDs in a record: a segment of a list, or a chunk of a deletion
// request.
func (r stateRecord) usersOf(t *testing.T) (ids []string) {
	t.Helper()
	switch kind, _, _ := strings.Cut(r.key, "."); kind {
	case "deletionchunk":
		var chunk struct{ Users []string }
		require.NoError(t, json.Unmarshal(r.value, &chunk))
		return chunk.Users
	case "segment":
		for e, err := range roster.Read(1, func(int) ([]byte, error) { return r.value, nil }) {
			require.NoError(t, err)
			ids = append(ids, e.User)
		}
	}
	return ids
}

func without(ids, gone []string) []string {
	lost := map[string]bool{}
	for _, id := range gone {
		lost[id] = true
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return lost[id] })
}

// want returns the expected notifications, the affected list and the number of lost users. hit is
// the lost record.
func (s *listSample) want(t *testing.T, hit stateRecord) (notices []string, list string, lost int) {
	t.Helper()
	gone := hit.usersOf(t)
	entered, left, deleted := without(s.second, s.first), without(s.first, s.second), s.deleted
	switch {
	case len(gone) == 0:
	case strings.HasPrefix(hit.key, "deletionchunk."):
		deleted, list = without(deleted, gone), "gdpr"
	case s.isFirst(hit):
		list = "VIP"
		entered = append(entered, without(gone, left)...)
		left = without(left, gone)
	default:
		list = "VIP"
		entered = without(entered, gone)
		rest := without(s.second, gone)
		slices.Sort(rest)
		at, _ := slices.BinarySearch(rest, gone[0])
		left = slices.DeleteFunc(left, func(id string) bool { // it is unknown whether users in the range of the lost segment left
			return (at == 0 || id > rest[at-1]) && (at == len(rest) || id < rest[at])
		})
	}
	for _, id := range entered {
		notices = append(notices, "identify "+id+" true")
	}
	for _, id := range left {
		notices = append(notices, "identify "+id+" false")
	}
	for _, id := range deleted {
		notices = append(notices, "delete "+id+" <nil>")
	}
	slices.Sort(notices)
	return notices, list, len(gone)
}

// isFirst reports whether a segment belongs to the first list. Uploads are sorted by time.
func (s *listSample) isFirst(hit stateRecord) bool {
	upload := func(r stateRecord) string { return strings.Split(r.key, ".")[2] }
	for _, r := range s.records {
		if strings.HasPrefix(r.key, "segment.") && upload(r) < upload(hit) {
			return false
		}
	}
	return true
}

// TestLostListRecords flips bits in the state bucket. If the loss is accepted, only the users in
// the corrupted record are lost, and they are reported. LIST_FLIPS sets the number of bits and
// selects lists of 9,000 users. JOURNAL_SEED sets the seed.
func TestLostListRecords(t *testing.T) {
	t.Parallel()
	flips, _ := strconv.Atoi(os.Getenv("LIST_FLIPS"))
	seed, _ := strconv.ParseInt(os.Getenv("JOURNAL_SEED"), 10, 64)
	n := 9000
	if flips == 0 {
		flips, n = 5, 900
	}
	s := newListSample(t, n)
	random := rand.New(rand.NewSource(seed))
	size := 0
	for _, r := range s.records {
		size += r.to - r.from
	}
	kinds := map[string]int{}
	for i := range flips {
		bit, hit := random.Intn(8), random.Intn(len(s.records))
		at := random.Intn(s.records[hit].to - s.records[hit].from)
		if i%2 == 0 { // prefer large records in half of the tries
			at, hit = random.Intn(size), 0
			for ; at >= s.records[hit].to-s.records[hit].from; hit++ {
				at -= s.records[hit].to - s.records[hit].from
			}
		}
		r := s.records[hit]
		t.Run(fmt.Sprintf("%d, %s, byte %d, bit %d", i, r.key, r.from+at, bit), func(t *testing.T) { s.try(t, r, r.from+at, bit) })
		kind, _, _ := strings.Cut(r.key, ".")
		kinds[fmt.Sprintf("%s, live %v", kind, r.live)]++
	}
	t.Logf("JOURNAL_SEED=%d: %v", seed, kinds)
}

// try flips a bit, opens the journal and sends the notifications that were not sent.
func (s *listSample) try(t *testing.T, hit stateRecord, at, bit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "data")
	defer os.RemoveAll(dir) // the test makes many copies
	require.NoError(t, os.CopyFS(dir, os.DirFS(s.dir)))
	block, err := os.ReadFile(filepath.Join(dir, hit.file))
	require.NoError(t, err)
	block[at] ^= 1 << bit
	require.NoError(t, os.WriteFile(filepath.Join(dir, hit.file), block, 0o600))
	j, err := jetstream.Open(ctx, jetstream.Options{Dir: dir})
	refused := errors.Is(err, record.ErrDamaged)
	if refused {
		j, err = jetstream.Open(ctx, jetstream.Options{Dir: dir, AcceptLoss: true})
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, j.Close()) }()
	receiver := &listReceiver{notices: map[string]int{}}
	c, _ := startLists(t, j, receiver)
	defer func() { require.NoError(t, c.Close()) }()

	d := awaitDeletion(t, c, "gdpr")
	synced, err := awaitSync(t, c, s.sync)
	unknown := errors.Is(err, state.ErrUnknown)
	if !unknown {
		require.NoError(t, err)
	}
	settled(t, ctx, c)
	got := receiver.take()
	lists, err := c.Users().Lost(ctx)
	require.NoError(t, err)

	want, list, lost := s.want(t, stateRecord{})
	if refused && hit.live {
		want, list, lost = s.want(t, hit)
	}
	switch {
	case d.LostRecord || unknown:
		require.True(t, refused && hit.live, "a record is lost")
		require.Len(t, lists, 1, "%+v", synced)
	case lost == 0:
		require.Empty(t, lists)
		require.Subset(t, got, want, "nothing is lost")
	default:
		require.Len(t, lists, 1)
		require.Equal(t, list, lists[0].Name)
		require.EqualValues(t, lost, lists[0].LostUsers)
		if !slices.Equal(want, got) {
			t.Fatalf("%d notices came, not %d: missing %.3q, not wanted %.3q", len(got), len(want), without(want, got), without(got, want))
		}
	}
	if d.LostRecord { // the request can be repeated
		d, err = c.Users().DeleteUsers(ctx, users.DeletionRequest{ID: "gdpr", UserIDs: s.deleted})
		require.NoError(t, err)
		d = awaitDeletion(t, c, d.ID)
		require.Zero(t, d.LostUsers)
	}
	next, err := c.Users().StartSync(ctx, vips(s.second))
	require.NoError(t, err)
	next, err = awaitSync(t, c, next.ID)
	require.NoError(t, err)
	require.Zero(t, next.LostUsers)
}
