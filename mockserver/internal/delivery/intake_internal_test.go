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
		"none is worked at":                      {want: true},
		"few are, and their calls wait":          {intake: intake{entries: minEntries - 1, calls: 10_000}, want: true},
		"some are, and their calls wait":         {intake: intake{entries: minEntries, calls: 4}},
		"small ones, and none waits":             {intake: intake{entries: minEntries, calls: 4}, idle: true, want: true},
		"many that may have ended":               {intake: intake{entries: 200, calls: 200}, idle: true, want: true},
		"the calls that may be held":             {intake: intake{entries: 5, calls: maxHeldCalls}, idle: true, want: true},
		"one call more":                          {intake: intake{entries: 5, calls: maxHeldCalls + 1}, idle: true},
		"large ones, of which all are under way": {intake: intake{entries: minEntries, calls: 10_000}, idle: true},
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

// TestIntakeNotifiesOnce checks that the worker is notified once, and not after another lease.
func TestIntakeNotifiesOnce(t *testing.T) {
	var in intake
	told := 0
	in.wantMore()
	in.notify(func() { told++ }, true)
	in.wantMore()
	in.wantMore()
	assert.Equal(t, 1, told)
	in.notify(func() { told++ }, true)
	in.begin(1)
	in.wantMore()
	assert.Equal(t, 1, told)
}

func TestIntakeHasNewLane(t *testing.T) {
	var in intake
	in.begin(1)
	in.begin(1)
	in.notify(func() {}, true)
	assert.False(t, in.hasNewLane(), "the others are wanted already")
	in.end(1, false)
	assert.False(t, in.hasNewLane(), "its lane has another entry")
	in.end(1, true)
	assert.True(t, in.hasNewLane())
	in.notify(func() {}, true)
	assert.False(t, in.hasNewLane(), "that is known")
	in.notify(func() {}, false)
	assert.True(t, in.hasNewLane(), "nothing was wanted")
}
