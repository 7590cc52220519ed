package delivery

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIntakeTakesAny(t *testing.T) {
	for name, test := range map[string]struct {
		intake intake
		idle   bool
		want   bool
	}{
		"no entry":                           {want: true},
		"few entries with waiting calls":     {intake: intake{entries: minEntries - 1, calls: 10_000}, want: true},
		"some entries with waiting calls":    {intake: intake{entries: minEntries, calls: 4}},
		"small entries, no waiting calls":    {intake: intake{entries: minEntries, calls: 4}, idle: true, want: true},
		"many entries that may have ended":   {intake: intake{entries: 200, calls: 200}, idle: true, want: true},
		"the maximum number of calls":        {intake: intake{entries: 5, calls: maxLeasedCalls}, idle: true, want: true},
		"one call more":                      {intake: intake{entries: 5, calls: maxLeasedCalls + 1}, idle: true},
		"large entries, all calls in flight": {intake: intake{entries: minEntries, calls: 10_000}, idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, test.intake.takesAny(test.idle))
		})
	}
}

func TestIntakeTakesOtherLanes(t *testing.T) {
	var in intake
	for range maxEntries {
		assert.True(t, in.takesOtherLanes())
		in.begin(1)
	}
	assert.False(t, in.takesOtherLanes())
	in.end(1, false)
	assert.True(t, in.takesOtherLanes())
}

// TestIntakeNotifiesOnce checks that the worker is notified once, and is not notified again after
// another lease.
func TestIntakeNotifiesOnce(t *testing.T) {
	var in intake
	notified := 0
	in.wantMore()
	in.notify(func() { notified++ }, true)
	in.wantMore()
	in.wantMore()
	assert.Equal(t, 1, notified)
	in.notify(func() { notified++ }, true)
	in.begin(1)
	in.wantMore()
	assert.Equal(t, 1, notified)
}

func TestIntakeHasNewLane(t *testing.T) {
	var in intake
	in.begin(1)
	in.begin(1)
	in.notify(func() {}, true)
	assert.False(t, in.hasNewLane(), "the other lanes are already wanted")
	in.end(1, false)
	assert.False(t, in.hasNewLane(), "its lane has another entry")
	in.end(1, true)
	assert.True(t, in.hasNewLane())
	in.notify(func() {}, true)
	assert.False(t, in.hasNewLane(), "already notified")
	in.notify(func() {}, false)
	assert.True(t, in.hasNewLane(), "no entry was wanted")
}
