package mockserver_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// memberCount is the receiver of a large audience whose users are numbers: it
// keeps little of each.
type memberCount struct {
	mu            sync.Mutex
	member        []bool
	entered, left int
	odd           []string // what should not have come
}

func (m *memberCount) RoundTrip(r *http.Request) (*http.Response, error) {
	var d struct {
		UserID string
		Traits struct{ Everyone bool }
	}
	err := json.NewDecoder(r.Body).Decode(&d)
	n, numeric := strconv.Atoi(strings.TrimLeft(strings.TrimPrefix(d.UserID, "user-"), "0"))
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil || numeric != nil || m.member[n] == d.Traits.Everyone:
		m.odd = append(m.odd, fmt.Sprint(d, err))
	case d.Traits.Everyone:
		m.entered++
	default:
		m.left++
	}
	m.member[n] = d.Traits.Everyone
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// userFile is a file of the users from first to last, one a line, as it is read.
func userFile(first, last int) io.Reader {
	r, w := io.Pipe()
	go func() {
		out := bufio.NewWriter(w)
		for i := first; i <= last; i++ {
			// In an order that is none: 7919 is prime to the powers of ten.
			fmt.Fprintf(out, "user-%012d\n", first+(i-first)*7919%(last-first+1))
		}
		w.CloseWithError(out.Flush())
	}()
	return r
}

// An audience of any size takes little memory, and a second list costs what has
// changed. MEMBERS=1000000 is the full length, at which memory is measured.
func TestLargeAudienceInLittleMemory(t *testing.T) {
	members := 2_000
	if n, err := strconv.Atoi(os.Getenv("MEMBERS")); err == nil {
		members = n
	}
	if os.Getenv("MEMBERS_CHILD") == "" {
		// In a process of its own, in which nothing else needs memory.
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), "MEMBERS_CHILD=1")
		out, err := child.CombinedOutput()
		t.Logf("%s", out)
		require.NoError(t, err)
		return
	}
	receiver := &memberCount{member: make([]bool, members*2)}
	c, err := engine.New(engine.Config{
		Sources: []tracking.Source{{Name: "web", WriteKey: "key"}}, Destinations: hooks("crm"),
		Sender: webhook.SenderConfig{Transport: receiver}, History: history.New(1000),
	})
	require.NoError(t, err)
	defer c.Close()
	sync := func(first, last int) users.Sync {
		t.Helper()
		start := time.Now()
		s, err := c.Users().SyncAudience(t.Context(), users.AudienceSync{Name: "Everyone", Members: users.ReadMembers(userFile(first, last))})
		require.NoError(t, err)
		taken := time.Since(start)
		s, err = c.Users().WaitSync(t.Context(), s.ID)
		require.NoError(t, err)
		settleBy(t.Context(), t, c)
		t.Logf("%d users: list taken in %v, %d entered and %d left, all delivered after %v", s.Users, taken.Round(time.Millisecond),
			s.Entered, s.Left, time.Since(start).Round(time.Millisecond))
		return s
	}
	moved := members / 200
	sync(1, members)
	assert.Equal(t, [2]int{members, 0}, [2]int{receiver.entered, receiver.left})
	sync(1+moved, members+moved)
	assert.Equal(t, [2]int{members + moved, moved}, [2]int{receiver.entered, receiver.left}, "exactly the 1 %% that changed")
	assert.Empty(t, receiver.odd)
	for i, is := range receiver.member {
		require.Equal(t, i > moved && i <= members+moved, is, "user %d", i)
	}
	if runtime.GOOS == "linux" && members >= 1_000_000 {
		peak := peakMemory(t)
		t.Logf("peak of the resident memory: %d MB", peak>>20)
		assert.Less(t, peak, 200<<20)
	}
}

// peakMemory returns the most resident memory that this process had, in bytes.
func peakMemory(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	_, after, found := bytes.Cut(status, []byte("VmHWM:"))
	require.True(t, found)
	var kilobytes int
	_, err = fmt.Sscan(string(after), &kilobytes)
	require.NoError(t, err)
	return kilobytes << 10
}
