package wire

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var uuidV7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// idMilli returns the time in an ID, in milliseconds.
func idMilli(t *testing.T, id string) int64 {
	t.Helper()
	milli, err := strconv.ParseInt(id[:8]+id[9:13], 16, 64)
	require.NoError(t, err)
	return milli
}

func TestIDIsAUUIDWithTheTime(t *testing.T) {
	before := time.Now().UnixMilli()
	id := string(AppendID([]byte("x")))[1:]
	require.Regexp(t, uuidV7, id)
	require.GreaterOrEqual(t, idMilli(t, id), before)
}

func TestIDsGrowAndAreUniqueConcurrentSafe(t *testing.T) {
	const goroutines, each = 8, 5000
	lists := make([][]string, goroutines)
	var group sync.WaitGroup
	for g := range lists {
		group.Go(func() {
			for range each {
				lists[g] = append(lists[g], string(AppendID(nil)))
			}
		})
	}
	group.Wait()
	seen := map[string]bool{}
	for _, list := range lists {
		require.True(t, slices.IsSorted(list), "ids of one goroutine must grow")
		for _, id := range list {
			seen[id] = true
			require.Regexp(t, uuidV7, id)
		}
	}
	require.Len(t, seen, goroutines*each)
}

func TestIDsGrowWhenTheClockIsSetBack(t *testing.T) {
	now := time.Now()
	first := string(AppendIDAt(nil, now.UnixMilli()))
	second := string(AppendIDAt(nil, now.Add(-time.Hour).UnixMilli()))
	require.Less(t, first[:18], second[:18])
}

func TestIDsOfAFullMillisecondRunAhead(t *testing.T) {
	now := time.Now().Add(time.Minute) // no other test creates IDs close to this time
	last := string(AppendIDAt(nil, now.UnixMilli()))
	for range 10_000 {
		id := string(AppendIDAt(nil, now.UnixMilli()))
		require.Less(t, last, id)
		last = id
	}
	require.InDelta(t, now.UnixMilli(), idMilli(t, last), 4)
}

func TestIDsDrawNewRandomBitsEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := string(AppendID(nil))
		require.Equal(t, first[19:], string(AppendID(nil))[19:])
		time.Sleep(time.Second)
		require.NotEqual(t, first[19:], string(AppendID(nil))[19:])
	})
}

func TestIDsOfTwoProcessesDiffer(t *testing.T) {
	if os.Getenv("ANALYTICS_TEST_ID") != "" {
		_, _ = os.Stdout.Write(append(AppendIDAt([]byte("id="), 1e12), '\n'))
		return
	}
	ids := map[string]bool{}
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestIDsOfTwoProcessesDiffer$")
		cmd.Env = append(os.Environ(), "ANALYTICS_TEST_ID=1", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.Output()
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(out), "id=")
		require.True(t, found)
		ids[rest[:36]] = true
	}
	require.Len(t, ids, 3)
}

// AppendStamp appends a new ID and the time of that ID.
func TestAppendStamp(t *testing.T) {
	for _, milli := range []int64{time.Now().UnixMilli(), time.Now().UnixMilli() + 7, 1e12 + 999, 1e12 + 1000, 0} {
		before := string(AppendIDAt(nil, milli))
		stamp := string(AppendStamp([]byte("x"), milli))
		id := stamp[len(`x"`) : len(`x"`)+IDLen]
		require.Regexp(t, uuidV7, id)
		require.Greater(t, id, before)
		require.Equal(t, `x"`+id+`"`+TimestampKey+string(AppendNow(nil, milli))+`"`, stamp)
	}
}
