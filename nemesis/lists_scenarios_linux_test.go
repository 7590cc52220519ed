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

// damagedList changes one bit in a stored list that has not been sent. The list is a deletion request
// in half of the rounds, and an audience in the others. With --accept-loss, the collector must report
// the users in the damaged record as lost, and no others. In a third of the rounds, the bit is in the
// record that describes the list, so the whole list may be lost.
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
	r.command(append(list.send, "--file", file)...) // the list has more notices than the queue can hold
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

	// The same list can be sent again, and another deletion request also completes.
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
		r.command(append(list.send, "--wait", "1m", "--file", file)...) // send the same request again
	}
	r.command(append(again, append(list.wait, "--file", file)...)...)
	r.settle(0)
	assert.Empty(r, differences(want, got.notices(list.prefix)), "the same list again")
	r.command("delete-user", users[0], "someone", "--id", "last", "--wait", "1m")
	r.own = got.count()
	r.finish()
}

// A listKind describes a kind of list and the commands for it.
type listKind struct {
	name         string
	send         []string // the command that stores a list; the file name follows
	wait         []string // flags for send to wait until the list is sent
	part, record string   // key prefixes of two kinds of records: a part of a list, and the list itself
	prefix       string   // the prefix of the messageIds of its notices
	path         string   // the path of the list in the admin API
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

// listState is the state of a list in the admin API.
type listState struct {
	LostUsers   int
	LostRecord  bool
	CompletedAt time.Time // set for a deletion request
	Syncs       []struct {
		State   string
		Entered int
	} // set for an audience
}

func (s listState) done() bool {
	for _, sync := range s.Syncs {
		if sync.State != "done" {
			return false
		}
	}
	return len(s.Syncs) > 0 || !s.CompletedAt.IsZero()
}

// state returns the state of the only list of its kind. It reports false if there is no list.
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

// namesLoss checks that the commands report the name of the list and the number of lost users.
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

// replayedNotices replays refused notices of audiences and traits after newer lists were sent. It kills
// the collector while the collector sends the last lists and while it replays.
func replayedNotices(r *rig) {
	got := newNoticeReceiver(r)
	r.loaded(100)
	r.stopLoad(patience)
	r.settle(0)
	got.refuse.Store(30)
	users := r.userIDs(400)
	var want map[string]string // the values in the last lists
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

	failed := got.failed()
	var contradicted []string // messageIds
	for _, n := range failed {
		if n.value != want[n.trait+" "+n.user] {
			contradicted = append(contradicted, n.id)
		}
	}
	all := r.settle(0)
	assert.Equal(r, len(failed), all[0].Failed, "each refused notice has failed: %+v", all[0])
	require.NotEmpty(r, contradicted)
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
	r.result.note("%d refused notices replayed, %d contradicted by a newer list", len(failed), len(contradicted))
	assert.Zero(r, all[0].Failed, "all were replayed: %+v", all[0])
	assert.Equal(r, len(contradicted), all[0].Filtered, "only contradicted notices are filtered: %+v", all[0])
	// After a kill, the history may lack the last tenth of a second. The ledger is complete.
	assert.Subset(r, contradicted, r.superseded(), "only contradicted notices are listed as superseded")

	last := got.last()
	maps.DeleteFunc(want, func(key, value string) bool {
		received, ok := last[key]
		return received == value || !ok && (value == "false" || value == "null") // the user was never in a list
	})
	assert.Empty(r, first(slices.Sorted(maps.Keys(want)), 3), "the receiver has the values of the last lists: %d are wrong", len(want))
	r.own = got.count() + len(contradicted)
	r.finish()
}

// superseded returns the calls that are listed as filtered because a newer list exists.
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

// command runs a command of the collector and returns its output. The command must succeed.
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

// A stateRecord is a record in a block of the state bucket.
type stateRecord struct {
	file     string
	from, to int
	key      string
	text     []byte
}

// usersOf returns those of the given users that are in the record. A list omits the first bytes of a
// user ID if they are the same as in the previous user ID.
func (s stateRecord) usersOf(users []string) (found []string) {
	for _, user := range users {
		if bytes.Contains(s.text, []byte(user[20:])) {
			found = append(found, user)
		}
	}
	return found
}

// damageRecord changes a bit in a record. The key of the record starts with kind and a dot.
func (r *rig) damageRecord(kind string) stateRecord {
	r.Helper()
	const prefix = "$KV.analytics-state."
	last := map[string]stateRecord{}
	for _, file := range r.files("jetstream/$G/streams/KV_*-state/msgs/*.blk") {
		block, err := os.ReadFile(file)
		require.NoError(r, err)
		for at := 0; at < len(block); { // a record contains length, sequence, time, subject length, subject and more
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

// noticeReceiver handles all requests to the rig's receiver. It records the notices of
// deletion requests, audiences and traits.
type noticeReceiver struct {
	next   *receiver
	refuse atomic.Int64 // percentage of notices to refuse with 400

	mu      sync.Mutex // guards the fields below
	arrived []notice   // in order of arrival
	refused map[string]notice
}

// A notice is a call that a deletion request creates, or a call that sets a trait to a JSON value.
type notice struct{ id, user, trait, value string }

// newNoticeReceiver creates a noticeReceiver that passes requests to the rig's receiver.
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

// notices returns the number of different notices for each user. It counts only messageIds with the
// given prefix.
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

// count returns the number of different notices that have arrived.
func (n *noticeReceiver) count() (count int) {
	for _, of := range n.notices("") {
		count += of
	}
	return count
}

// failed returns the notices that were refused and have not arrived since.
func (n *noticeReceiver) failed() []notice {
	n.mu.Lock()
	defer n.mu.Unlock()
	failed := maps.Clone(n.refused)
	for _, a := range n.arrived {
		delete(failed, a.id)
	}
	return slices.Collect(maps.Values(failed))
}

// last returns the last value that arrived for each trait and user.
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

// differences describes up to five users for which the number of notices is wrong.
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
