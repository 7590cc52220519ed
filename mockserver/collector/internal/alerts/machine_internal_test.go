package alerts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// A drive runs a script on a machine and records the alerts. A script contains these commands:
//
//	at 5s bad|good crm     a check of the destination
//	at 5s lost crm 3       three of its calls fail permanently
//	at 5s replaced crm     the destination is removed and added again
//	at 5s tell ok|no       send alerts, with or without success
type drive struct {
	*machine
	attached time.Time // of the destination
	told     []string
}

func (d *drive) step(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	after, err := time.ParseDuration(words[1])
	require.NoError(t, err)
	now := start.Add(after)
	crm := subject{kindDestination, "crm"}
	switch words[2] {
	case "bad", "good":
		d.see(crm, finding{bad: words[2] == "bad"}, now)
	case "paused":
		d.see(crm, finding{reason: "it is paused"}, now)
	case "gone":
		d.see(crm, finding{bad: true, since: start.Add(-time.Hour)}, now)
	case "lost":
		var n int
		_, err := fmt.Sscan(words[4], &n)
		require.NoError(t, err)
		for range n {
			d.recordFailure(words[3], finding{bad: true, reason: "responded with 400"}, now)
		}
	case "replaced":
		d.attached = now
	case "removed":
		d.tick(nil, now)
	case "tick":
		for _, kind := range d.tick(map[string]time.Time{"crm": d.attached}, now) {
			d.told = append(d.told, words[1]+" dropped "+string(kind))
		}
	case "another":
		d.resendAll()
	case "tell":
		a := d.next(now)
		if a == nil {
			return
		}
		said := fmt.Sprintf("%s %s %s since %s", words[1], a.Kind, a.State, a.Since.Sub(start))
		if a.Times > 1 {
			said += fmt.Sprintf(", %d times", a.Times)
		}
		if a.Total > 0 {
			said += fmt.Sprintf(", %d of %d calls", a.Calls, a.Total)
		}
		if words[3] == "ok" {
			d.received(a, now)
		} else {
			said = "(" + said + ")"
		}
		d.told = append(d.told, said)
	default:
		t.Fatalf("%q is not understood", line)
	}
}

func TestMachine(t *testing.T) {
	for _, c := range []struct {
		name, steps string
		want        []string
	}{
		{"down for less than after", "0s bad, 4m59s bad, 4m59s tell ok, 5m good, 6m tell ok", nil},
		{"down and up", "0s bad, 5m bad, 5m tell ok, 5m2s tell ok, 7m good, 7m tell ok, 9m tell ok", []string{"5m destination raised since 0s", "7m destination recovered since 0s"}},
		{"a break begins anew", "0s bad, 4m good, 5m bad, 9m bad, 9m tell ok, 10m bad, 10m tell ok", []string{"10m destination raised since 5m0s"}},
		{"gone before the start", "0s gone, 0s tell ok", []string{"0s destination raised since -1h0m0s"}},
		{"paused", "0s bad, 5m bad, 5m tell ok, 7m paused, 7m tell ok", []string{"5m destination raised since 0s", "7m destination recovered since 0s"}},
		{"removed", "0s bad, 5m bad, 5m tell ok, 7m removed, 7m tell ok, 8m removed, 20m tell ok", []string{"5m destination raised since 0s", "7m destination recovered since 0s"}},
		{"removed before it was told", "0s bad, 7m removed, 7m tell ok", nil},
		{"one a minute", "0s bad, 5m bad, 5m tell ok, 5m10s good, 5m10s tell ok, 5m59s tell ok, 6m tell ok", []string{"5m destination raised since 0s", "6m destination recovered since 0s"}},
		{"not received, and tried again", "0s bad, 5m bad, 5m tell no, 5m2s tell no, 5m6s tell ok, 5m8s tell ok", []string{"(5m destination raised since 0s)", "(5m2s destination raised since 0s)", "5m6s destination raised since 0s"}},
		{"over before it was received", "0s bad, 5m bad, 5m tell no, 6m good, 6m tell ok, 8m tell ok", []string{"(5m destination raised since 0s)", "6m destination recovered since 0s"}},
		{"twice before it was received", "0s bad, 5m bad, 6m good, 7m bad, 12m bad, 12m tell ok", []string{"12m destination raised since 7m0s, 2 times"}},
		{"recovered is told while it is bad anew", "0s bad, 5m bad, 5m tell ok, 6m good, 6m1s bad, 6m2s tell ok", []string{"5m destination raised since 0s", "6m2s destination recovered since 0s"}},
		{"never received, and dropped", "0s bad, 5m bad, 6m good, 1h5m tick, 1h6m tick, 1h7m tell ok", []string{"1h6m dropped destination"}},
		{"what is wrong is not dropped", "0s bad, 5m bad, 5h tick, 5h tell ok", []string{"5h destination raised since 0s"}},
		{"calls given up", "1s lost crm 3, 2s tell ok, 3s lost crm 4, 4s tell ok, 62s tell ok, 3m tick, 3m tell ok, 5m2s tick, 5m3s tick, 5m3s tell ok, 9m tell ok",
			[]string{"2s given_up raised since 1s, 3 of 3 calls", "62s given_up raised since 1s, 4 of 7 calls", "5m3s given_up recovered since 1s, 0 of 7 calls"}},
		{"calls given up while nobody takes alerts", "0s lost crm 3, 0s tell no, 6m tick, 6m tell no, 8m lost crm 2, 8m tell ok", []string{"(0s given_up raised since 0s, 3 of 3 calls)", "(6m given_up recovered since 0s, 3 of 3 calls)", "8m given_up raised since 0s, 2 times, 5 of 5 calls"}},
		{"calls given up anew", "0s lost crm 3, 0s tell ok, 6m tick, 6m tell ok, 8m lost crm 2, 8m tell ok", []string{"0s given_up raised since 0s, 3 of 3 calls", "6m given_up recovered since 0s, 0 of 3 calls", "8m given_up raised since 8m0s, 2 of 2 calls"}},
		{"calls of a previous destination", "0s lost crm 3, 0s tell ok, 1m replaced crm, 1m1s tick, 1m1s tell ok, 2m lost crm 2, 2m1s tick, 2m2s tell ok",
			[]string{"0s given_up raised since 0s, 3 of 3 calls", "1m1s given_up recovered since 0s, 0 of 3 calls", "2m2s given_up raised since 2m0s, 2 of 2 calls"}},
		{"the one that was tried longest ago", "0s lost crm 1, 0s lost b 1, 0s tell no, 1s tell ok, 2s tell ok, 3s tell ok", []string{"(0s given_up raised since 0s, 1 of 1 calls)", "1s given_up raised since 0s, 1 of 1 calls", "2s given_up raised since 0s, 1 of 1 calls"}},
		{"another webhook", "0s lost crm 3, 0s bad, 0s tell ok, 5m bad, 5m another, 5m tell ok, 5m tell ok, 5m tell ok", []string{"0s given_up raised since 0s, 3 of 3 calls", "5m destination raised since 0s", "5m given_up raised since 0s, 3 of 3 calls"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &drive{machine: newMachine("host")}
			d.after = 5 * time.Minute
			for step := range strings.SplitSeq(c.steps, ", ") {
				d.step(t, "at "+step)
			}
			assert.Equal(t, c.want, d.told)
		})
	}
}

// TestRecoveryIsRetriedForAnHour checks that the hour begins with the recovery, not with the last call that
// failed, which can be further in the past.
func TestRecoveryIsRetriedForAnHour(t *testing.T) {
	m := newMachine("host")
	m.after = 2 * time.Hour
	m.recordFailure("crm", finding{bad: true, reason: "a"}, start)
	m.received(m.next(start), start)
	recovered := start.Add(m.after)
	assert.Empty(t, m.tick(nil, recovered))
	assert.Empty(t, m.tick(nil, recovered.Add(dropAfter-time.Second)))
	d := m.next(recovered.Add(dropAfter - time.Second))
	require.NotNil(t, d)
	assert.Equal(t, stateRecovered, d.State)
	assert.Equal(t, start, d.Until)
	assert.Equal(t, []kind{kindFailedCalls}, m.tick(nil, recovered.Add(dropAfter)))
}

// TestChangesWhileAnAlertIsSent checks that changes during a request are in the next alert.
func TestChangesWhileAnAlertIsSent(t *testing.T) {
	m := newMachine("host")
	m.after = time.Minute
	m.recordFailure("crm", finding{bad: true, reason: "a"}, start)
	first := m.next(start)
	m.recordFailure("crm", finding{bad: true, reason: "b"}, start)
	m.received(first, start)
	assert.Nil(t, m.next(start))
	second := m.next(start.Add(every))
	require.NotNil(t, second)
	assert.EqualValues(t, 1, second.Calls)
	assert.EqualValues(t, 2, second.Total)
	assert.Equal(t, "b", second.Reason)
	assert.NotEqual(t, first.id, second.id)
	assert.Zero(t, second.Times)
}

func TestNewWebhookIgnoresOldResponses(t *testing.T) {
	m := newMachine("host")
	m.recordFailure("crm", finding{bad: true, reason: "a"}, start)
	first := m.next(start)
	m.resendAll()
	m.received(first, start)
	again := m.next(start)
	require.NotNil(t, again)
	assert.EqualValues(t, 1, again.Calls)
}

func TestRecoveredConditionsAreRemoved(t *testing.T) {
	m := newMachine("host")
	m.after = time.Minute
	now := start
	for i := range 100 {
		m.recordFailure(fmt.Sprint("d", i), finding{bad: true, reason: "a"}, now)
		m.failures[fmt.Sprint("d", i)] = finding{bad: true, reason: "a"}
		m.received(m.next(now), now)
	}
	for range 3 {
		now = now.Add(time.Minute)
		m.tick(nil, now)
		for d := m.next(now); d != nil; d = m.next(now) {
			m.received(d, now)
		}
	}
	assert.Empty(t, m.conditions)
	assert.Empty(t, m.failures)
}

func TestReasonsOmitSecretsInURLs(t *testing.T) {
	for _, c := range []struct{ reason, want string }{
		{"https://h/secret?token=x: responded with 500", "https://h/…: responded with 500"},
		{"https://h/a: responded with 500; http://h:80/b?c: responded with 404 Not Found", "https://h/…: responded with 500; http://h:80/…: responded with 404 Not Found"},
		{"https://h: responded with 500", "https://h: responded with 500"},
		{"https://h?token=x: no response within 5s", "https://h/…: no response within 5s"},
		{"see https://h/secret", "see https://h/…"},
		{"every webhook has refused the call permanently", "every webhook has refused the call permanently"},
	} {
		assert.Equal(t, c.want, reasonOf(c.reason))
	}
	assert.LessOrEqual(t, len(reasonOf(strings.Repeat("x", 2*maxReason))), maxReason+len("…"))
}
