package mockserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/roster"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A sync goes through these stages. What was done in each is stored before the
// next begins, so that a process can die anywhere and the next one goes on.
//
//	sort   the list is read and sorted; a long one in a temporary file
//	upload the sorted list is written to the State, in segments that belong to
//	       nothing yet
//	queue  one update of the computation's record makes it the next list. From
//	       here on it is never lost, and the request is answered
//	count  when its turn has come, it is compared with the list before it
//	send   calls are made of the differences and stored in the journal; now and
//	       then the record is told how many are
//	done   one update of the record makes it the current list, and the one before
//	       it is deleted
//
// The differences of two lists, and the messageIds of their calls, are the same
// each time: a send that is begun again makes the same calls.

// A ComputationKind says what a computation is.
type ComputationKind string

// The kinds of computations.
const (
	KindAudience ComputationKind = "audience"
	KindTrait    ComputationKind = "trait"
)

// A Computation is an audience or a computed trait at a destination.
type Computation struct {
	ID          string          `json:"id"`
	Kind        ComputationKind `json:"kind"`
	Name        string          `json:"name"`
	Key         string          `json:"key"` // of the trait that the destination gets
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	// Users is how many the destination was told of: the members of an audience,
	// or those who have a value.
	Users int64 `json:"users"`
	// Syncs are those that are done, of which the last 20 are kept, and then those
	// that are not, in their order.
	Syncs []Sync `json:"syncs"`
}

// A SyncState says how far a sync is.
type SyncState string

// The states of a sync.
const (
	SyncQueued  SyncState = "queued"  // it waits for its turn
	SyncRunning SyncState = "running" // its calls are being made
	SyncDone    SyncState = "done"    // all its calls are in the journal
)

// A Sync is one list of an audience or a computed trait, and what came of it.
type Sync struct {
	ID          string    `json:"id"` // empty of a dry run
	Number      int       `json:"number"`
	State       SyncState `json:"state,omitempty"` // empty of a dry run
	RequestedAt time.Time `json:"requestedAt"`
	StartedAt   time.Time `json:"startedAt,omitzero"`
	FinishedAt  time.Time `json:"finishedAt,omitzero"`
	// Timestamp is that of all its calls, in whole milliseconds. It is higher than
	// that of the sync before.
	Timestamp time.Time `json:"timestamp,omitzero"`
	// Users is how many are in the list.
	Users int64 `json:"users"`
	// Entered is for how many users a value is sent, and Left to how many it is
	// sent that they are members no more, or have no value. They are zero until
	// StartedAt.
	Entered int64 `json:"entered"`
	Left    int64 `json:"left"`
	// Sent is how many of their calls are in the journal.
	Sent int64 `json:"sent"`
	// Waiting says what a running sync waits for, if it does.
	Waiting string `json:"waiting,omitempty"`
	Full    bool   `json:"full,omitempty"`
	DryRun  bool   `json:"dryRun,omitempty"`
	// Deletion is the ID of the deletion request whose users were taken out of the
	// list, if this is no list but that. Left is then how many they were; they are
	// not told of it.
	Deletion string `json:"deletion,omitempty"`
}

// Limits of computations.
const (
	maxQueuedSyncs = 16 // of one computation
	keptSyncs      = 20 // that are done
	// uploadAge is after how long an upload that was not completed is taken to be
	// given up, if the process that made it does not come back to say so.
	uploadAge = 24 * time.Hour
	// sortsAtOnce is how many lists are read at once, each with
	// roster.DefaultMemory.
	sortsAtOnce = 4
	// updateTries is how often a record is tried to be changed when others do so too.
	updateTries = 50
)

// Errors that syncs answer with, wrapped.
var (
	// ErrEmptyList says that a list has no users, and that AllowEmpty was not set.
	ErrEmptyList = errors.New("mockserver: the list is empty")

	// ErrQueueFull says that too many syncs of an audience or trait wait.
	ErrQueueFull = errors.New("mockserver: too many syncs wait for their turn")

	errForgotten = errors.New("mockserver: it was forgotten while its list was read")
)

// A computationRecord is what is stored of a computation, under recordKey.
type computationRecord struct {
	ID          string          `json:"id"`
	Kind        ComputationKind `json:"kind"`
	Name        string          `json:"name"`
	Key         string          `json:"key"`
	Source      string          `json:"source"`
	Destination string          `json:"destination"`
	// Secret goes into the messageIds, so that no sender can guess them: a call
	// with such an ID would keep ours from being taken.
	Secret  string       `json:"secret"`
	Last    Sync         `json:"last"`    // of all that were queued
	Current storedList   `json:"current"` // what the destination was told
	Queue   []queuedSync `json:"queue,omitempty"`
	Done    []Sync       `json:"done,omitempty"`
	Uploads []upload     `json:"uploads,omitempty"` // under way
	Lease   workLease    `json:"lease,omitzero"`
}

// A storedList is a roster in the State, under segmentKey.
type storedList struct {
	Upload   string `json:"upload,omitempty"` // empty for the empty list
	Segments int    `json:"segments,omitempty"`
	Users    int64  `json:"users,omitempty"`
}

type queuedSync struct {
	Sync
	List    storedList `json:"list"`
	Counted bool       `json:"counted,omitempty"`
}

type upload struct {
	ID       string    `json:"id"`
	Instance string    `json:"instance"`
	At       time.Time `json:"at"`
}

const recordPrefix = "computation"

func recordKey(id string) string { return recordPrefix + "." + id }

func segmentsKey(id, upload string) string { return "segment." + id + "." + upload }

func segmentKey(id, upload string, n int) string {
	return fmt.Sprintf("%s.%d", segmentsKey(id, upload), n)
}

// syncs takes lists and makes calls of them, for all computations.
type syncs struct {
	collector *Collector
	state     StateStore
	work      *workers
	sorts     chan struct{} // one token for each list being read

	changed notifier // tells when a record was changed here

	mu   sync.Mutex       // guards what follows
	sent map[string]int64 // calls of running syncs, by ID, of which the record may not know
}

func newSyncs(c *Collector) *syncs {
	s := &syncs{collector: c, state: c.config.State, sorts: make(chan struct{}, sortsAtOnce), sent: map[string]int64{}}
	s.work = newWorkers(c, s.step, s.waiting)
	return s
}

// start takes up what earlier processes left.
func (s *syncs) start() {
	started := s.collector.clock.Now()
	s.work.start(func(ctx context.Context) error { return s.clean(ctx, started) })
}

// A syncRequest is a list before it is read.
type syncRequest struct {
	kind                      ComputationKind
	name, source, destination string
	list                      roster.Seq
	dryRun, full, allowEmpty  bool
}

// take reads a list and queues it, or counts what it would change.
func (s *syncs) take(ctx context.Context, r syncRequest) (Sync, error) {
	if s.collector.draining.Load() {
		return Sync{}, ErrClosed
	}
	target, err := s.resolve(r)
	if err != nil {
		return Sync{}, err
	}
	select {
	case s.sorts <- struct{}{}:
		defer func() { <-s.sorts }()
	case <-ctx.Done():
		return Sync{}, ctx.Err()
	}
	sorted, err := roster.Sort(r.list, s.collector.config.TempDir, 0)
	if err != nil {
		return Sync{}, fmt.Errorf("mockserver: the list of %s %q: %w", r.kind, r.name, err)
	}
	defer sorted.Close()
	if empty, err := isEmpty(withValues(sorted)); err != nil {
		return Sync{}, err
	} else if empty && !r.allowEmpty {
		return Sync{}, fmt.Errorf("%w: it would take every user out of %s %q; allow an empty list if that is meant", ErrEmptyList, r.kind, r.name)
	}
	if r.dryRun {
		return s.dryRun(ctx, target, sorted, r.full)
	}
	list, err := s.upload(ctx, target, withValues(sorted))
	if err != nil {
		s.giveUp(target.ID, list)
		return Sync{}, err
	}
	queued, err := s.enqueue(ctx, target.ID, list, Sync{Full: r.full})
	if err != nil {
		return Sync{}, fmt.Errorf("%s %q: %w", r.kind, r.name, err)
	}
	return queued, nil
}

func isEmpty(entries roster.Seq) (bool, error) {
	for _, err := range entries {
		return false, err
	}
	return true, nil
}

// resolve finds the computation of a request, and checks that its calls have
// somewhere to go.
func (s *syncs) resolve(r syncRequest) (computationRecord, error) {
	settings := s.collector.Settings()
	key := SnakeCase(r.name)
	problem := ""
	switch {
	case len(r.name) > MaxComputationName:
		problem = fmt.Sprintf("has %d bytes", len(r.name))
	case key == "":
		problem = fmt.Sprintf("is %q, which has no letter and no digit", r.name)
	case !utf8.ValidString(r.name):
		problem = fmt.Sprintf("is %q, which is not UTF-8", r.name)
	}
	if problem != "" {
		return computationRecord{}, &webhook.FieldError{Field: "name", Problem: problem,
			Mend: fmt.Sprintf("name the %s in 1 to %d bytes, such as Big Spenders", r.kind, MaxComputationName)}
	}
	source, err := s.collector.oneSource(settings, r.source)
	if err != nil {
		return computationRecord{}, err
	}
	d, err := settings.oneDestination(source, r.destination)
	if err != nil {
		return computationRecord{}, err
	}
	return computationRecord{
		ID: digest(source, d.Name, key), Kind: r.kind, Name: r.name, Key: key, Source: source, Destination: d.Name,
	}, nil
}

// oneSource returns the source of a name, or the only one where none is given.
func (c *Collector) oneSource(s Settings, name string) (string, error) {
	var names []string
	for _, source := range s.Sources {
		names = append(names, source.Name)
	}
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "" && len(names) == 0:
		return "", &webhook.FieldError{Field: "source", Problem: "is empty", Mend: "name the source; there is none in the settings"}
	case name == "":
		return "", &webhook.FieldError{Field: "source", Problem: "is empty", Mend: "name one of " + strings.Join(names, ", ")}
	case slices.Contains(names, name) || c.config.AnyWriteKey:
		return name, nil
	}
	return "", fmt.Errorf("%w: there is no source %q", ErrUnknown, name)
}

// oneDestination returns the destination of a name, or the only one of a source
// where none is given. It must be one that gets the source's calls.
func (s Settings) oneDestination(source, name string) (*Destination, error) {
	var names []string
	var found *Destination
	for i := range s.Destinations {
		d := &s.Destinations[i]
		if name == "" && d.gets(source) == nil {
			names = append(names, d.Name)
			found = d
		} else if name != "" && d.Name == name {
			return d, d.gets(source)
		}
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("%w: there is no destination %q", ErrUnknown, name)
	case len(names) == 0:
		return nil, &webhook.FieldError{Field: "destination", Problem: "is empty",
			Mend: fmt.Sprintf("connect a destination to source %q and enable it; there is none", source)}
	case len(names) > 1:
		return nil, &webhook.FieldError{Field: "destination", Problem: "is empty", Mend: "name one of " + strings.Join(names, ", ")}
	}
	return found, nil
}

// gets returns nil if the destination gets calls of a source, or says why not.
func (d *Destination) gets(source string) error {
	problem, mend := "", ""
	switch {
	case d.Disabled:
		problem, mend = "is disabled", "enable it first"
	case len(d.Sources) > 0 && !slices.Contains(d.Sources, source):
		problem, mend = fmt.Sprintf("is not connected to source %q", source), "connect it first"
	default:
		return nil
	}
	return &webhook.FieldError{Field: fmt.Sprintf("destination %q", d.Name), Problem: problem, Mend: mend}
}

// dryRun counts what a list would change, had all that are queued been sent.
func (s *syncs) dryRun(ctx context.Context, target computationRecord, sorted *roster.Sorted, full bool) (Sync, error) {
	dry := Sync{DryRun: true, Full: full, RequestedAt: s.collector.clock.Now()}
	before, err := s.load(ctx, target.ID)
	if err != nil && !errors.Is(err, ErrNoState) {
		return Sync{}, err
	}
	if err := target.matches(before); err != nil {
		return Sync{}, err
	}
	list := before.Current
	for _, q := range before.Queue {
		if q.Deletion == "" {
			list = q.List
		}
	}
	counted := counter(withValues(sorted), &dry.Users)
	for change, err := range roster.Diff(s.read(ctx, target.ID, list), counted, full) {
		if err != nil {
			return Sync{}, fmt.Errorf("mockserver: %w", err)
		}
		dry.count(change)
	}
	return dry, nil
}

func (s *Sync) count(c roster.Change) {
	if c.Removed {
		s.Left++
	} else {
		s.Entered++
	}
}

// withValues yields a sorted list without the users whose value is null.
func withValues(sorted *roster.Sorted) roster.Seq {
	return func(yield func(roster.Entry, error) bool) {
		for e, err := range sorted.All() {
			if err == nil && string(e.Value) == "null" {
				continue
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// counter adds the entries that it yields to count.
func counter(entries roster.Seq, count *int64) roster.Seq {
	return func(yield func(roster.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				*count++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// upload writes a list to the State. It tells the record before, so that what it
// writes is deleted should it not get far.
func (s *syncs) upload(ctx context.Context, target computationRecord, entries roster.Seq) (storedList, error) {
	list := storedList{Upload: strings.ToLower(rand.Text()[:16])}
	_, err := s.update(ctx, target.ID, func(r *computationRecord) error {
		if err := target.matches(*r); err != nil {
			return err
		}
		if r.ID == "" {
			*r = target
			r.Secret = rand.Text()
		}
		r.Name = target.Name // names that give the same key: the newest is shown
		r.Uploads = append(r.Uploads, upload{list.Upload, s.collector.config.Instance, s.collector.clock.Now()})
		return nil
	})
	if err != nil {
		return list, err
	}
	list.Users, list.Segments, err = roster.Write(entries, func(n int, segment []byte) error {
		return s.state.Put(ctx, segmentKey(target.ID, list.Upload, n), segment)
	})
	if err != nil {
		return list, fmt.Errorf("mockserver: the list of %s %q cannot be stored: %w", target.Kind, target.Name, err)
	}
	return list, nil
}

// matches tells whether a record, if there is one, is of the same kind.
func (r computationRecord) matches(stored computationRecord) error {
	if stored.ID == "" || stored.Kind == r.Kind {
		return nil
	}
	return fmt.Errorf("%w: the trait %q at destination %q is that of the %s %q", ErrExists, r.Key, r.Destination, stored.Kind, stored.Name)
}

// giveUp deletes an upload that came to nothing, as well as it can: what stays is
// deleted when the next sync is done.
func (s *syncs) giveUp(id string, list storedList) {
	ctx, cancel := context.WithTimeout(s.work.ctx, 5*time.Second)
	defer cancel()
	err := s.state.Delete(ctx, segmentsKey(id, list.Upload))
	if err == nil {
		_, err = s.update(ctx, id, func(r *computationRecord) error {
			if r.ID == "" {
				return ErrNoState
			}
			r.Uploads = slices.DeleteFunc(r.Uploads, func(u upload) bool { return u.ID == list.Upload })
			return nil
		})
	}
	if err != nil && !errors.Is(err, ErrNoState) {
		s.collector.log.Warn("a list that was not taken could not be deleted yet", "computation", id, "error", err)
	}
}

// enqueue makes an upload the next list of its computation.
func (s *syncs) enqueue(ctx context.Context, id string, list storedList, sync Sync) (Sync, error) {
	var queued Sync
	_, err := s.update(ctx, id, func(r *computationRecord) error {
		i := slices.IndexFunc(r.Uploads, func(u upload) bool { return u.ID == list.Upload })
		switch {
		case i < 0:
			return errForgotten
		case len(r.Queue) >= maxQueuedSyncs && sync.Deletion == "":
			return fmt.Errorf("%w: %d do", ErrQueueFull, len(r.Queue))
		}
		r.Uploads = slices.Delete(r.Uploads, i, i+1)
		queued = r.next(sync, s.collector.clock.Now().UTC())
		queued.Users = list.Users
		r.Last = queued
		r.Queue = append(r.Queue, queuedSync{Sync: queued, List: list})
		return nil
	})
	if errors.Is(err, ErrQueueFull) || errors.Is(err, errForgotten) {
		s.giveUp(id, list) // after any other error it may be queued
	}
	if err != nil {
		return Sync{}, err
	}
	s.work.kick(id)
	return queued, nil
}

// next makes a sync the one after the last.
func (r computationRecord) next(sync Sync, now time.Time) Sync {
	sync.Number, sync.State, sync.RequestedAt = r.Last.Number+1, SyncQueued, now
	sync.ID = fmt.Sprintf("%s-%d", r.ID, sync.Number)
	sync.Timestamp = now.Truncate(time.Millisecond)
	if !sync.Timestamp.After(r.Last.Timestamp) {
		sync.Timestamp = r.Last.Timestamp.Add(time.Millisecond)
	}
	return sync
}

// erase takes the users of a deletion request out of all lists of some sources,
// after the syncs that are queued. It may be called again for the same request.
func (s *syncs) erase(ctx context.Context, sources []string, request string, users roster.Seq) error {
	ids, err := s.ids(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		r, err := s.load(ctx, id)
		if errors.Is(err, ErrNoState) {
			continue // forgotten meanwhile
		}
		if err != nil {
			return err
		}
		if !slices.Contains(sources, r.Source) || r.struck(request) {
			continue
		}
		if any, err := s.holdsAny(ctx, r, users); err != nil || !any {
			if err != nil {
				return err
			}
			continue
		}
		list, err := s.upload(ctx, r, users)
		if err == nil {
			_, err = s.enqueue(ctx, id, list, Sync{Deletion: request})
		}
		if err != nil && !errors.Is(err, errForgotten) {
			return err
		}
	}
	return nil
}

// struck tells whether the users of a deletion request were taken out of the
// list, or will be.
func (r computationRecord) struck(request string) bool {
	return slices.ContainsFunc(r.public().Syncs, func(s Sync) bool { return s.Deletion == request })
}

// holdsAny tells whether one of some users is in the current list, or in one that
// is queued.
func (s *syncs) holdsAny(ctx context.Context, r computationRecord, users roster.Seq) (bool, error) {
	lists := []storedList{r.Current}
	for _, q := range r.Queue {
		if q.Deletion == "" {
			lists = append(lists, q.List)
		}
	}
	for _, list := range lists {
		var rest int64
		for _, err := range counter(roster.Without(s.read(ctx, r.ID, list), users), &rest) {
			if err != nil {
				return false, fmt.Errorf("mockserver: %w", err)
			}
		}
		if rest < list.Users {
			return true, nil
		}
	}
	return false, nil
}

// read yields a stored list.
func (s *syncs) read(ctx context.Context, id string, list storedList) roster.Seq {
	return roster.Read(list.Segments, func(n int) ([]byte, error) {
		segment, _, err := s.state.Get(ctx, segmentKey(id, list.Upload, n))
		return segment, err
	})
}

// ids returns those of all computations.
func (s *syncs) ids(ctx context.Context) ([]string, error) {
	keys, err := s.state.Keys(ctx, recordPrefix)
	if err != nil {
		return nil, fmt.Errorf("mockserver: %w", err)
	}
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], recordPrefix+".")
	}
	return keys, nil
}

// load returns the record of a computation, or ErrNoState.
func (s *syncs) load(ctx context.Context, id string) (computationRecord, error) {
	var r computationRecord
	_, err := loadState(ctx, s.state, recordKey(id), &r)
	return r, err
}

// update changes the record of a computation, which is empty if there is none.
func (s *syncs) update(ctx context.Context, id string, change func(*computationRecord) error) (computationRecord, error) {
	r, err := updateState(ctx, s.state, recordKey(id), change)
	if err == nil {
		s.changed.tell()
	}
	return r, err
}

// loadState reads a JSON value and returns its revision.
func loadState(ctx context.Context, state StateStore, key string, into any) (uint64, error) {
	value, revision, err := state.Get(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("mockserver: state %s: %w", key, err)
	}
	if err := json.Unmarshal(value, into); err != nil {
		return 0, fmt.Errorf("mockserver: state %s: %w", key, err)
	}
	return revision, nil
}

// putState writes a JSON value.
func putState(ctx context.Context, state StateStore, key string, value any) error {
	encoded, err := json.Marshal(value)
	if err == nil {
		err = state.Put(ctx, key, encoded)
	}
	if err != nil {
		return fmt.Errorf("mockserver: state %s: %w", key, err)
	}
	return nil
}

// updateState changes a JSON value, which is zero where there is none, again and
// again until nobody comes between. An error of change ends it.
func updateState[T any](ctx context.Context, state StateStore, key string, change func(*T) error) (T, error) {
	var none T
	for range updateTries {
		var value T
		revision, err := loadState(ctx, state, key, &value)
		if err != nil && !errors.Is(err, ErrNoState) {
			return none, err
		}
		if err := change(&value); err != nil {
			return none, err
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			return none, fmt.Errorf("mockserver: state %s: %w", key, err)
		}
		switch _, err = state.Update(ctx, key, encoded, revision); {
		case err == nil:
			return value, nil
		case !errors.Is(err, ErrStateConflict):
			return none, fmt.Errorf("mockserver: state %s: %w", key, err)
		}
	}
	return none, fmt.Errorf("mockserver: state %s: %w, %d times in a row", key, ErrStateConflict, updateTries)
}

// Computations returns all audiences and computed traits, by name.
func (c *Collector) Computations(ctx context.Context) ([]Computation, error) {
	ids, err := c.syncs.ids(ctx)
	if err != nil {
		return nil, err
	}
	var all []Computation
	for _, id := range ids {
		r, err := c.syncs.load(ctx, id)
		if errors.Is(err, ErrNoState) || r.Last.Number == 0 {
			continue // forgotten meanwhile, or never synced
		}
		if err != nil {
			return nil, err
		}
		all = append(all, r.public())
	}
	slices.SortFunc(all, func(a, b Computation) int {
		return strings.Compare(a.Name+"\x00"+a.ID, b.Name+"\x00"+b.ID)
	})
	return all, nil
}

// Computation returns the audience or computed trait of an ID, or ErrUnknown.
func (c *Collector) Computation(ctx context.Context, id string) (Computation, error) {
	r, err := computationRecord{}, ErrNoState
	if isDigest(id) {
		r, err = c.syncs.load(ctx, id)
	}
	if errors.Is(err, ErrNoState) || err == nil && r.Last.Number == 0 {
		return Computation{}, fmt.Errorf("%w: there is no audience or trait with the ID %q", ErrUnknown, id)
	}
	return r.public(), err
}

func (r computationRecord) public() Computation {
	c := Computation{
		ID: r.ID, Kind: r.Kind, Name: r.Name, Key: r.Key, Source: r.Source, Destination: r.Destination,
		Users: r.Current.Users, Syncs: append([]Sync{}, r.Done...),
	}
	for _, q := range r.Queue {
		c.Syncs = append(c.Syncs, q.Sync)
	}
	return c
}

// Sync returns the sync of an ID, or ErrUnknown, also where newer ones have
// displaced it.
func (c *Collector) Sync(ctx context.Context, id string) (Sync, error) {
	computation, _, _ := strings.Cut(id, "-")
	all, err := c.Computation(ctx, computation)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return Sync{}, err
	}
	for _, s := range all.Syncs {
		if s.ID == id {
			return s, nil
		}
	}
	return Sync{}, fmt.Errorf("%w: there is no sync with the ID %q", ErrUnknown, id)
}

// WaitSync waits until all calls of a sync are in the journal. When ctx ends
// first, it returns how far it is, and an error.
func (c *Collector) WaitSync(ctx context.Context, id string) (Sync, error) {
	var s Sync
	err := c.syncs.changed.await(ctx, func() (done bool, err error) {
		s, err = c.Sync(context.WithoutCancel(ctx), id)
		return s.State == SyncDone, err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("mockserver: waited for sync %s, which has sent %d of %d calls: %w", id, s.Sent, s.Entered+s.Left, err)
	}
	return s, err
}

// ForgetComputation forgets an audience or a computed trait, with what its
// destination was told and the syncs that wait. Nothing is sent. The next sync
// is then a first one. It is ErrUnknown where there is none.
func (c *Collector) ForgetComputation(ctx context.Context, id string) error {
	if _, err := c.Computation(ctx, id); err != nil {
		return err
	}
	err := c.syncs.state.Delete(ctx, recordKey(id))
	if err == nil {
		err = c.syncs.state.Delete(ctx, "segment."+id)
	}
	if err != nil {
		return fmt.Errorf("mockserver: %w", err)
	}
	c.syncs.changed.tell()
	return nil
}
