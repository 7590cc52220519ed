package jetstream_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream"
)

func TestAttemptsAreStoredAndFollowed(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	var want []string
	record := func(j *jetstream.Journal, from, to int) {
		for i := from; i < to; i++ {
			r := fmt.Sprintf("attempt %d %s", i, strings.Repeat("x", i))
			want = append(want, r)
			j.Attempts().Record([]byte(r))
		}
	}
	record(j, 0, 1500) // more than one message
	ok(t, j.Close())

	j = open(t, jetstream.Options{Dir: dir})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	keep := func(r []byte) { got = append(got, string(r)) }
	var next uint64
	for _, limit := range []int{1 << 30, 700_000, 5000, 0} {
		newest := want
		for size := len(strings.Join(want, "")); size > limit; newest = newest[1:] {
			size -= len(newest[0])
		}
		records, end, err := j.Attempts().Newest(ctx, limit)
		if got := texts(records); err != nil || !slices.Equal(got, newest) {
			t.Fatalf("%d records of %d bytes, want %d; %v", len(got), limit, len(newest), err)
		}
		next = end
	}
	got = slices.Clone(want)
	record(j, 1500, 1600) // earlier records are not returned again
	err := j.Attempts().Follow(ctx, next, func(r []byte) {
		if keep(r); len(got) == len(want) {
			cancel()
		}
	})
	if err == nil || !slices.Equal(got, want) {
		t.Fatalf("%d records, want %d; %v", len(got), len(want), err)
	}
	if n := j.Attempts().Dropped(); n != 0 {
		t.Fatalf("%d records were dropped", n)
	}
}

func texts(records [][]byte) (all []string) {
	for _, r := range records {
		all = append(all, string(r))
	}
	return all
}

func TestSeenYieldsStoredCalls(t *testing.T) {
	dir := t.TempDir()
	j := open(t, jetstream.Options{Dir: dir})
	began := time.Now().Truncate(time.Millisecond)
	appendCalls(t, j, "a web site", "with, odd % ids\n", 3)
	appendCalls(t, j, "ios", "b", 2)
	j = reopen(t, dir)
	seen := func(since time.Time, limit int) (all []string) {
		ok(t, j.Seen(within(t), since, limit, func(source string, ids iter.Seq[string]) bool {
			for id := range ids {
				all = append(all, source+"/"+id)
			}
			return true
		}))
		return all
	}
	first, newest := []string{"a web site/with, odd % ids\n-0", "a web site/with, odd % ids\n-1", "a web site/with, odd % ids\n-2"}, []string{"ios/b-0", "ios/b-1"}
	for _, c := range []struct {
		name  string
		since time.Time
		limit int
		want  []string
	}{
		{"all", began, 1000, slices.Concat(first, newest)},
		{"the newest message", began, 1, newest},
		{"none is that young", time.Now().Add(time.Millisecond), 1000, nil},
	} {
		if got := seen(c.since, c.limit); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q", c.name, got)
		}
	}
}
