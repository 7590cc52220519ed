package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSealTimer(t *testing.T) {
	const after = 5 * time.Second
	var timer sealTimer
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }

	require.True(t, timer.opened(start, after), "the loop does not watch yet")
	require.False(t, timer.expired(at(after-1), true))
	require.True(t, timer.expired(at(after), true))
	timer.lastSeal = at(after)
	require.True(t, timer.watching.IsZero())

	// The interval starts when the previous batch is sealed.
	require.True(t, timer.opened(at(after+time.Second), after))
	require.Equal(t, at(2*after), timer.due)

	// A full batch is sealed early. The loop still wakes at the time that was set for this batch,
	// and then checks the next batch.
	timer.lastSeal = at(7 * time.Second)
	require.False(t, timer.opened(at(8*time.Second), after), "the loop watches already")
	require.False(t, timer.expired(at(2*after), true))
	require.Equal(t, at(12*time.Second), timer.watching)

	require.False(t, timer.expired(at(12*time.Second), false), "there is no batch")
	require.True(t, timer.watching.IsZero())

	// After a long pause, the interval starts at the time of the call.
	require.True(t, timer.opened(at(time.Hour), after))
	require.Equal(t, at(time.Hour+after), timer.due)
}

func TestOutboxGate(t *testing.T) {
	var o outbox
	now := time.Now()
	require.Zero(t, o.gateOpens(now))
	o.closeGate(now.Add(time.Minute))
	o.closeGate(now.Add(time.Second))
	require.Equal(t, now.Add(time.Minute), o.gateOpens(now), "the longest wait counts")
	require.Zero(t, o.gateOpens(now.Add(time.Minute)))
}

// The settings of the source do not open a gate that the collector has closed.
func TestSettingsKeepTheGateOfTheCollector(t *testing.T) {
	p := newTestPipeline(t, Config{})
	until := time.Now().Add(settingsWait)
	p.outbox.closeGate(until)
	p.openGate(until)
	require.Zero(t, p.outbox.gate)
	p.outbox.closeGate(until.Add(time.Minute))
	p.openGate(until)
	require.Equal(t, until.Add(time.Minute), p.outbox.gate)
}

func TestOutboxOldest(t *testing.T) {
	var o outbox
	require.Nil(t, o.oldest())
	compressed, next, raw := &batch{seq: 1}, &batch{seq: 2}, &batch{seq: 3}
	o.sealed.push(raw)
	o.ready.push(compressed)
	o.ready.push(next)
	require.Same(t, compressed, o.oldest())
	require.Same(t, next, o.oldest())
	require.Same(t, raw, o.oldest())
	require.Nil(t, o.oldest())
}
