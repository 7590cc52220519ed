package main

import (
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// replicasReported takes JetStream away from one server, and then takes another server away. The
// collector must report every replica of these servers within a minute, and no other replicas. It
// must accept calls in the meantime. After each repair it must report that all replicas are up to
// date.
func replicasReported(r *rig) {
	alerts := newAlertReceiver(r)
	c := newClusterWith(&cluster{rig: r, onDisks: true}, 1)
	c.settings += fmt.Sprintf("\nalerts: {webhook: 'http://%s:%s/'}", c.net.Self(), alerts.port)
	c.configure()
	c.load.Rate = 200
	c.startAll()
	c.begin(300)

	at := c.random.IntN(3)
	full, other := c.nodes[at], c.nodes[(at+1)%3]
	require.NoError(c, full.disk.Fill(0))
	c.reports(alerts, full, "JetStream is not running; see the server's log")
	require.NoError(c, full.disk.Empty())
	full.process.Kill()
	require.NoError(c, full.start())
	c.reportsRecovery(alerts)

	const noResponse = "no response; the server is down, disconnected or without JetStream"
	if c.seed%2 == 0 {
		require.NoError(c, other.signal(syscall.SIGSTOP))
		c.reports(alerts, other, noResponse)
		require.NoError(c, other.signal(syscall.SIGCONT))
	} else {
		c.damageMetadata(other)
		require.NoError(c, other.start())
		c.await("the server refuses to start", other.process.Ended)
		c.reports(alerts, other, noResponse)
		c.replace(other)
	}
	c.reportsRecovery(alerts)
	c.end()
}

// damageMetadata stops a server and changes one bit in its snapshot of the cluster's metadata.
func (c *cluster) damageMetadata(m *machine) {
	c.Helper()
	require.NoError(c, m.process.Stop()) // a server writes its snapshots when it stops
	snapshots := m.stored(c.rig, "$SYS/_js_/_meta_/snapshots/*")
	require.NotEmpty(c, snapshots)
	for _, path := range snapshots {
		b, err := os.ReadFile(path)
		require.NoError(c, err)
		b[c.random.IntN(len(b))] ^= 1 << c.random.IntN(8)
		require.NoError(c, os.WriteFile(path, b, 0o600))
	}
}

// reports waits until the collector reports that a server has no working replica of any stream, with
// the given reason. It checks that calls are still accepted.
func (c *cluster) reports(alerts *alertReceiver, m *machine, reason string) {
	c.Helper()
	streams, err := os.ReadDir(filepath.Join(m.disk.Path(), "store", "jetstream", "$G", "streams"))
	require.NoError(c, err)
	require.NotEmpty(c, streams)
	begin, status := time.Now(), ""
	defer func() {
		if c.Failed() {
			c.Logf("the last status, with %v unhealthy replicas in the metrics:\n%s", c.unhealthyReplicas(), status)
		}
	}()
	c.await("the collector reports the replicas on "+m.Name, func() bool {
		status = c.status()
		page := c.page("/destinations")
		for _, stream := range streams {
			problem := fmt.Sprintf("%s on %s: %s", stream.Name(), m.Name, reason)
			if !strings.Contains(status, "REPLICA: "+problem+"\n") || !strings.Contains(page, "Replica: "+problem) {
				return false
			}
		}
		return c.unhealthyReplicas() == float64(len(streams))
	})
	c.result.note("%s: reported after %v", reason, time.Since(begin).Round(time.Second))
	assert.Equal(c, len(streams), strings.Count(status, "REPLICA: "), "replicas of other servers are reported: %s", status)
	c.await("an alert names the replica", func() bool { return alerts.received("raised", "on "+m.Name+": "+reason) })
	c.progress(300)
	assert.True(c, c.collectors[0].collector().Ready(), "a majority has every stream")
}

// reportsRecovery waits until the collector reports that all replicas are up to date.
func (c *cluster) reportsRecovery(alerts *alertReceiver) {
	c.Helper()
	begin := time.Now()
	c.await("the collector reports no replica", func() bool {
		status := c.status()
		return strings.HasPrefix(status, "ready") && !strings.Contains(status, "REPLICA") &&
			!strings.Contains(c.page("/destinations"), "Replica: ") && c.unhealthyReplicas() == 0
	})
	c.result.note("ready after %v", time.Since(begin).Round(time.Second))
	c.await("an alert reports the recovery", func() bool { return alerts.received("recovered", "") })
	alerts.clear()
}

// status returns the output of collector status.
func (c *cluster) status() string {
	cmd := exec.Command(c.binary, "status", "--url", "http://"+c.address)
	cmd.Env = append(os.Environ(), "COLLECTOR_TOKEN="+adminToken)
	out, _ := cmd.CombinedOutput() // the output contains the error
	return string(out)
}

// page returns the text of a page of the inspector. It returns "" if the page cannot be read.
func (c *cluster) page(path string) string {
	req, err := http.NewRequest(http.MethodGet, "http://"+c.address+path, nil)
	require.NoError(c, err)
	req.Header.Set("Authorization", "Bearer "+adminToken)
	client := http.Client{Timeout: patience}
	res, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return html.UnescapeString(string(text))
}

// unhealthyReplicas returns the number of unhealthy replicas in the metrics, or -1 if it is unknown.
func (c *cluster) unhealthyReplicas() float64 {
	metrics, _ := c.collectors[0].collector().Metrics(c.Context())
	if n, ok := metrics["collector_cluster_replicas_unhealthy"]; ok {
		return n
	}
	return -1
}

// An alertReceiver is the webhook for alerts. It records the alerts about replicas.
type alertReceiver struct {
	port string

	mu     sync.Mutex // guards bodies
	bodies []string
}

func newAlertReceiver(r *rig) *alertReceiver {
	r.Helper()
	a := &alertReceiver{}
	l, err := net.Listen("tcp", ":0")
	require.NoError(r, err)
	_, a.port, err = net.SplitHostPort(l.Addr().String())
	require.NoError(r, err)
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: a}}
	server.Start()
	r.Cleanup(server.Close)
	return a
}

func (a *alertReceiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = append(a.bodies, string(body))
}

// received reports whether an alert about replicas with the given state contains text.
func (a *alertReceiver) received(state, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, body := range a.bodies {
		if strings.Contains(body, `"kind":"replicas","state":"`+state+`"`) && strings.Contains(body, text) {
			return true
		}
	}
	return false
}

// clear removes all recorded alerts.
func (a *alertReceiver) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies = nil
}
