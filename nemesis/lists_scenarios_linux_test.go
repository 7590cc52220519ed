package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// damagedList changes one bit of a stored list that was not sent yet, with --accept-loss. In half
// of the rounds the list is a deletion request, otherwise an audience. The users of the damaged
// record are lost and named, and no others. In a third of the rounds the bit is in the record of
// the list, which may lose the complete list.
func damagedList(r *rig) {
	list, wholeList := deletionList, r.seed%3 == 0
	if r.seed/2%2 == 1 {
		list = audienceList
	}
	r.settings = "limits: {queue: 8MiB}"
	r.load.CallSize, r.load.Batch, r.load.Rate = 8000, 4, 100_000
	got := newNoticeReceiver(r)
	r.onDisk("")
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/pause", nil, nil))
	r.begin(0)
	r.await("calls are refused", func() bool { return r.load.Refused.Load() > 100 })
	r.stopLoad(0)

	users := r.userIDs(3000)
	file := r.listFile("users", users)
	r.command(append(list.send, "--file", file)...) // its notices do not fit into the queue
	r.await("the list has begun", func() bool {
		state, known := list.state(r)
		return known && (len(state.Syncs) == 0 || state.Syncs[0].Entered > 0)
	})
	r.kill()
	kind := list.part
	if wholeList {
		kind = list.record
	}
	hit := r.damageRecord(kind)
	lost := hit.usersOf(users)
	damaged := r.startFull()
	if damaged != nil {
		require.ErrorContains(r, damaged, "--accept-loss")
		r.result.note("refused")
		require.NoError(r, r.startFull("--accept-loss"))
	} else {
		lost = nil
	}
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/resume", nil, nil))
	r.await("the list is sent or lost", func() bool {
		state, known := list.state(r)
		return !known || state.LostRecord || state.done()
	})
	r.settle(0)
	state, _ := list.state(r)
	if wholeList && (state.LostRecord || state.LostUsers > 0) {
		require.Error(r, damaged, "a collector that does not refuse has lost nothing")
		lost = users
	} else {
		assert.False(r, state.LostRecord)
		assert.Equal(r, len(lost), state.LostUsers)
	}
	want := map[string]int{}
	for _, user := range without(users, lost) {
		want[user] = 1
	}
	assert.Empty(r, differences(want, got.notices(list.prefix)), "each user that is not lost gets one notice")
	r.result.note("%s: %d of %d users lost", list.name, len(lost), len(users))
	r.namesLoss(list, len(lost), state.LostRecord)

	// The same list, and another deletion request, complete.
	for _, user := range lost {
		want[user] = 1
	}
	again := list.send
	if list.name == deletionList.name && len(lost) < len(users) {
		again = append(slices.Clone(again[:1]), "--id", "again")
		for _, user := range users {
			want[user]++
		}
		for _, user := range lost {
			want[user]--
		}
		r.command(append(list.send, "--wait", "1m", "--file", file)...) // the same request again
	}
	r.command(append(again, append(list.wait, "--file", file)...)...)
	r.settle(0)
	assert.Empty(r, differences(want, got.notices(list.prefix)), "the same list again")
	r.command("delete-user", users[0], "someone", "--id", "last", "--wait", "1m")
	r.own = got.count()
	r.finish()
}

// A listKind is a kind of list and the commands for it.
type listKind struct {
	name         string
	send         []string // stores the list; a file follows
	wait         []string // flags of send that wait until the list is sent
	part, record string   // prefixes of the keys of stored records: parts of lists, and the list
	prefix       string   // of the messageIds of its notices
	path         string   // of the list in the admin API
}

var (
	deletionList = listKind{
		name: "deletion request", send: []string{"delete-user", "--id", "forget-them"}, wait: []string{"--wait", "1m"},
		part: "deletionchunk", record: "deletion", prefix: "delete-", path: "/deletions",
	}
	audienceList = listKind{
		name: "audience", send: []string{"audience", "sync", "VIP", "--no-wait"}, wait: []string{"--no-wait=false"},
		part: "segment", record: "computation", prefix: "audience-", path: "/computations",
	}
)

// listState is the state of a list according to the admin API.
type listState struct {
	LostUsers   int
	LostRecord  bool
	CompletedAt time.Time // of a deletion request
	Syncs       []struct {
		State   string
		Entered int
	} // of an audience
}

func (s listState) done() bool {
	for _, sync := range s.Syncs {
		if sync.State != "done" {
			return false
		}
	}
	return len(s.Syncs) > 0 || !s.CompletedAt.IsZero()
}

// state returns the state of the only list of its kind, if it is known.
func (k listKind) state(r *rig) (state listState, known bool) {
	r.Helper()
	var answer struct{ Deletions, Computations []listState }
	require.NoError(r, r.ask(http.MethodGet, k.path, nil, &answer))
	all := slices.Concat(answer.Deletions, answer.Computations)
	if len(all) == 0 {
		return state, false
	}
	require.Len(r, all, 1)
	return all[0], true
}

// namesLoss checks that the commands report the number of lost users and the name of the list.
func (r *rig) namesLoss(list listKind, lost int, record bool) {
	r.Helper()
	verified, err := r.verifyAt(r.address)
	require.NoError(r, err, verified)
	command, name := []string{"deletions"}, "forget-them"
	if list.name == audienceList.name {
		command, name = []string{"audience", "list"}, "VIP"
	}
	shown := r.command(command...)
	require.Contains(r, shown, name)
	named := fmt.Sprintf("%q", name)
	count := fmt.Sprintf("users lost: %d;", lost)
	switch {
	case record:
		assert.Contains(r, verified, named)
		assert.Contains(r, verified, "the record of this list was lost")
		assert.Contains(r, shown, "lost")
	case lost > 0:
		assert.Contains(r, verified, named)
		assert.Contains(r, verified, count)
		assert.Contains(r, strings.Fields(shown), fmt.Sprint(lost))
	default:
		assert.NotContains(r, verified, "users lost")
	}
}

// replayedNotices replays refused notices of audiences and traits after newer lists. The
// collector is killed while it sends the last lists and while it replays.
func replayedNotices(r *rig) {
	got := newNoticeReceiver(r)
	r.loaded(100)
	r.stopLoad(patience)
	r.settle(0)
	got.refuse.Store(30)
	users := r.userIDs(400)
	var want map[string]string // the values of the last lists
	const versions = 3
	for version := range versions {
		var members, values []string
		want = map[string]string{}
		for _, user := range users {
			want["vip "+user], want["score "+user] = "false", "null"
			if r.random.IntN(3) > 0 {
				members = append(members, user)
				want["vip "+user] = "true"
			}
			if r.random.IntN(3) > 0 {
				score := r.random.IntN(3)
				values = append(values, fmt.Sprintf(`{"userId":"%s","value":%d}`, user, score))
				want["score "+user] = fmt.Sprint(score)
			}
		}
		r.command("audience", "sync", "VIP", "--no-wait", "--file", r.listFile("members", members))
		r.command("trait", "sync", "Score", "--no-wait", "--file", r.listFile("values", values))
		if version == versions-1 {
			r.sleep(0, 300*time.Millisecond)
			r.kill()
			r.start()
		}
		r.await("the lists are sent", func() bool {
			var answer struct{ Computations []listState }
			require.NoError(r, r.ask(http.MethodGet, "/computations", nil, &answer))
			return len(answer.Computations) == 2 && answer.Computations[0].done() && answer.Computations[1].done()
		})
		r.settle(0)
	}

	failed, contradicted := 0, 0
	for _, n := range got.failed() {
		failed++
		if n.value != want[n.trait+" "+n.user] {
			contradicted++
		}
	}
	all := r.settle(0)
	assert.Equal(r, failed, all[0].Failed, "each refused notice has failed: %+v", all[0])
	require.Positive(r, contradicted)
	got.refuse.Store(0)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_ = r.ask(http.MethodPost, "/destinations/hook/replay", map[string]any{}, nil)
	}()
	r.sleep(0, 300*time.Millisecond)
	r.kill()
	<-asked
	r.start()
	require.NoError(r, r.ask(http.MethodPost, "/destinations/hook/replay", map[string]any{}, nil))
	all = r.settle(0)
	r.result.note("%d refused notices replayed, %d contradicted by a newer list", failed, contradicted)
	assert.Zero(r, all[0].Failed, "all were replayed: %+v", all[0])
	assert.Equal(r, contradicted, all[0].Filtered, "only contradicted notices are filtered: %+v", all[0])
	assert.Len(r, r.superseded(), contradicted)

	last := got.last()
	maps.DeleteFunc(want, func(key, value string) bool {
		received, ok := last[key]
		return received == value || !ok && (value == "false" || value == "null") // never in a list
	})
	assert.Empty(r, first(slices.Sorted(maps.Keys(want)), 3), "the receiver has the values of the last lists: %d are wrong", len(want))
	r.own = got.count() + contradicted
	r.finish()
}

// superseded returns the filtered calls whose reason is a newer list.
func (r *rig) superseded() (ids []string) {
	r.Helper()
	var answer struct {
		Calls []struct {
			MessageID    string
			Destinations []struct{ Reason string }
		}
	}
	require.NoError(r, r.ask(http.MethodGet, "/calls?state=filtered&limit=500", nil, &answer))
	for _, c := range answer.Calls {
		if len(c.Destinations) == 1 && strings.HasPrefix(c.Destinations[0].Reason, "superseded") {
			ids = append(ids, c.MessageID)
		}
	}
	return ids
}

// command runs a command of the collector, which must succeed, and returns its output.
func (r *rig) command(args ...string) string {
	r.Helper()
	cmd := exec.Command(r.binary, append(slices.Clone(args), "--url", "http://"+r.address)...)
	cmd.Env = append(os.Environ(), "COLLECTOR_TOKEN="+adminToken)
	out, err := cmd.CombinedOutput()
	require.NoError(r, err, "collector %v: %s", args, out)
	return string(out)
}

// userIDs returns n different user IDs of 200 bytes, sorted.
func (r *rig) userIDs(n int) (ids []string) {
	for range n {
		id := make([]byte, 100)
		for i := range id {
			id[i] = byte(r.random.IntN(256))
		}
		ids = append(ids, fmt.Sprintf("%x", id))
	}
	slices.Sort(ids)
	return ids
}

// listFile writes lines to a file and returns its path.
func (r *rig) listFile(name string, lines []string) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	require.NoError(r, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return path
}

// A stateRecord is a record of a block of the state bucket.
type stateRecord struct {
	file     string
	from, to int
	key      string
	text     []byte
}

// usersOf returns the users in the record. Lists omit the first bytes of a user ID if the
// previous one has the same.
func (s stateRecord) usersOf(users []string) (found []string) {
	for _, user := range users {
		if bytes.Contains(s.text, []byte(user[20:])) {
			found = append(found, user)
		}
	}
	return found
}

// damageRecord changes a bit of a record whose key begins with kind and a dot.
func (r *rig) damageRecord(kind string) stateRecord {
	r.Helper()
	const prefix = "$KV.analytics-state."
	last := map[string]stateRecord{}
	for _, file := range r.files("jetstream/$G/streams/KV_*-state/msgs/*.blk") {
		block, err := os.ReadFile(file)
		require.NoError(r, err)
		for at := 0; at < len(block); { // length, sequence, time, length of the subject, subject, …
			to := at + int(binary.LittleEndian.Uint32(block[at:])&^(1<<31))
			subject := block[at+22:][:binary.LittleEndian.Uint16(block[at+20:])]
			key := strings.TrimPrefix(string(subject), prefix)
			last[key] = stateRecord{file, at, to, key, block[at:to]}
			at = to
		}
	}
	maps.DeleteFunc(last, func(key string, _ stateRecord) bool { return !strings.HasPrefix(key, kind+".") })
	require.NotEmpty(r, last)
	hit := last[slices.Sorted(maps.Keys(last))[r.random.IntN(len(last))]]
	r.change(hit.file, func(b []byte) []byte {
		at := hit.from + r.random.IntN(hit.to-hit.from)
		r.result.note("bit at %d, in %s", at, hit.key)
		b[at] ^= 1 << r.random.IntN(8)
		return b
	})
	return hit
}

// noticeReceiver receives all requests for the rig's receiver, and records the notices of
// deletion requests, audiences and traits.
type noticeReceiver struct {
	next   *receiver
	refuse atomic.Int64 // the percentage of notices that are refused with 400

	mu      sync.Mutex // guards the fields below
	arrived []notice   // in order
	refused map[string]notice
}

// A notice is a call of a deletion request, or sets a trait to a JSON value.
type notice struct{ id, user, trait, value string }

// newNoticeReceiver puts a noticeReceiver in front of the rig's receiver.
func newNoticeReceiver(r *rig) *noticeReceiver {
	n := &noticeReceiver{next: r.receiver, refused: map[string]notice{}}
	server := httptest.NewServer(n)
	r.Cleanup(server.Close)
	r.receiver.url = server.URL
	return n
}

func (n *noticeReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if received, ok := parseNotice(req.Header.Get("X-Message-Id"), body); ok {
		n.mu.Lock()
		refuse := int64(crc32.ChecksumIEEE([]byte(received.id))%100) < n.refuse.Load()
		if refuse {
			n.refused[received.id] = received
		} else {
			n.arrived = append(n.arrived, received)
		}
		n.mu.Unlock()
		if refuse {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	n.next.ServeHTTP(w, req)
}

func parseNotice(id string, body []byte) (n notice, ok bool) {
	kind, _, _ := strings.Cut(id, "-")
	if kind != "delete" && kind != "audience" && kind != "trait" {
		return n, false
	}
	var call struct {
		UserID string
		Traits map[string]json.RawMessage
	}
	if json.Unmarshal(body, &call) != nil {
		return n, false
	}
	n = notice{id: id, user: call.UserID}
	for trait, value := range call.Traits {
		n.trait, n.value = trait, string(value)
	}
	return n, true
}

// notices returns the number of different notices of each user whose messageIds have a prefix.
func (n *noticeReceiver) notices(prefix string) map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts, seen := map[string]int{}, map[string]bool{}
	for _, a := range n.arrived {
		if strings.HasPrefix(a.id, prefix) && !seen[a.id] {
			seen[a.id] = true
			counts[a.user]++
		}
	}
	return counts
}

// count returns the number of different notices that arrived.
func (n *noticeReceiver) count() (count int) {
	for _, of := range n.notices("") {
		count += of
	}
	return count
}

// failed returns the refused notices that have not arrived.
func (n *noticeReceiver) failed() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	failed := maps.Clone(n.refused)
	for _, a := range n.arrived {
		delete(failed, a.id)
	}
	return slices.Collect(maps.Values(failed))
}

// last returns the last value that arrived, by trait and user.
func (n *noticeReceiver) last() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	values := map[string]string{}
	for _, a := range n.arrived {
		values[a.trait+" "+a.user] = a.value
	}
	return values
}

func without(users, gone []string) []string {
	absent := map[string]bool{}
	for _, user := range gone {
		absent[user] = true
	}
	return slices.DeleteFunc(slices.Clone(users), func(user string) bool { return absent[user] })
}

// differences describes up to five users whose numbers of notices differ.
func differences(want, got map[string]int) (found []string) {
	users := maps.Clone(want)
	maps.Copy(users, got)
	for _, user := range slices.Sorted(maps.Keys(users)) {
		if want[user] != got[user] {
			found = append(found, fmt.Sprintf("%.8s: %d notices, not %d", user, got[user], want[user]))
		}
	}
	if len(found) > 5 {
		found = append(found[:5], fmt.Sprintf("and %d others", len(found)-5))
	}
	return found
}
