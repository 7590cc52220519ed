package servers

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

// The durability of a cluster depends on a setting of its servers. By default, they sync messages up
// to two minutes after they acknowledge them. Each server is therefore queried, either through its
// monitoring address or with a request that the system account may permit. Servers that cannot be
// queried are reported.

const (
	// serverTimeout is the time limit for a server to report its settings.
	serverTimeout = 2 * time.Second
	// serversPause is how long ping waits for the response of another server.
	serversPause = 500 * time.Millisecond
	// maxVarz limits the size of a server's report.
	maxVarz = 4 << 20
	// subjectVarz requests a report from all servers.
	subjectVarz = "$SYS.REQ.SERVER.PING.VARZ"
)

// ErrLazySync means that a server of the cluster acknowledges calls before they are on its
// disk.
var ErrLazySync = errors.New("a server of the cluster acknowledges calls before they are on its disk")

// ErrUnknownSync means that the servers of the cluster do not report when they sync.
var ErrUnknownSync = errors.New("the servers of the cluster do not report whether they sync calls before they acknowledge them")

// A State lists a cluster's servers, and its replicas that are missing or behind.
type State struct {
	Servers  []journal.Server
	Replicas []journal.Replica
}

// Known contains the last known state of the cluster. It is safe for concurrent use.
type Known struct {
	mu     sync.Mutex // guards the fields below
	known  State
	before []journal.Replica // all replicas that the previous call of Set found
}

// State returns a copy of the state.
func (s *Known) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{slices.Clone(s.known.Servers), slices.Clone(s.known.Replicas)}
}

// Set replaces the state and returns the new or changed parts. A replica is included only if two
// consecutive calls contain it, because every replica is briefly behind after an election.
func (s *Known) Set(now State) (changed State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := now.Replicas
	now.Replicas = without(found, func(r journal.Replica) bool { return !hasReplica(s.before, r) })
	changed.Servers = slices.DeleteFunc(slices.Clone(now.Servers), func(n journal.Server) bool { return slices.Contains(s.known.Servers, n) })
	changed.Replicas = without(now.Replicas, func(r journal.Replica) bool { return hasReplica(s.known.Replicas, r) })
	s.known, s.before = now, found
	return changed
}

func without(all []journal.Replica, of func(journal.Replica) bool) []journal.Replica {
	return slices.DeleteFunc(slices.Clone(all), of)
}

// hasReplica reports whether all contains a replica. It ignores the lag of the replica.
func hasReplica(all []journal.Replica, r journal.Replica) bool {
	return slices.ContainsFunc(all, func(o journal.Replica) bool {
		o.Lag = r.Lag
		return o == r
	})
}

// A Cluster is an existing NATS cluster.
type Cluster struct {
	NATS    *NATS
	NC      *nats.Conn
	JS      jetstream.JetStream
	Log     *slog.Logger
	Streams []string // names of the required streams
}

// varz is a server's report about itself.
type varz struct {
	Name      string `json:"server_name"`
	Version   string `json:"version"`
	JetStream struct {
		Config *struct {
			SyncInterval time.Duration `json:"sync_interval"`
			SyncAlways   bool          `json:"sync_always"`
			SyncBatched  bool          `json:"sync_batched"`
		} `json:"config"`
	} `json:"jetstream"`
	Cluster struct {
		Name string `json:"name"`
	} `json:"cluster"`
}

// server returns the server that sent the report. The server must have JetStream enabled.
func (v *varz) server() journal.Server {
	c := v.JetStream.Config
	s := journal.Server{Name: v.Name, Version: v.Version, Sync: journal.SyncLazy}
	switch {
	case c.SyncAlways:
		s.Sync, s.SyncInterval = journal.SyncAlways, "always"
	case c.SyncBatched:
		s.SyncInterval = "batched"
	default:
		s.SyncInterval = c.SyncInterval.String()
	}
	return s
}

// Inspect returns the servers with their settings, sorted by name, and the unhealthy replicas. It
// returns an error if some servers could not be queried.
func (c *Cluster) Inspect(ctx context.Context) (State, error) {
	reports, err := c.query(ctx)
	found := map[string]journal.Server{}
	var bare []string // names of servers without JetStream
	for i := range reports {
		switch v := &reports[i]; {
		case v.Cluster.Name != c.NC.ConnectedClusterName():
		case v.JetStream.Config == nil:
			bare = append(bare, v.Name)
		default:
			found[v.Name] = v.server()
		}
	}
	peers, replicas := c.peers(ctx)
	for i := range replicas {
		if slices.Contains(bare, replicas[i].Server) {
			replicas[i].State = journal.ReplicaNoJetStream
		}
	}
	for _, name := range peers {
		if _, ok := found[name]; !ok {
			found[name] = journal.Server{Name: name, Sync: journal.SyncUnknown}
		}
	}
	// The version of the connected server is always known.
	if name := c.NC.ConnectedServerName(); name != "" {
		s := found[name]
		s.Name, s.Sync = name, cmp.Or(s.Sync, journal.SyncUnknown)
		s.Version = cmp.Or(s.Version, c.NC.ConnectedServerVersion())
		found[name] = s
	}
	byName := func(a, b journal.Server) int { return cmp.Compare(a.Name, b.Name) }
	return State{slices.SortedFunc(maps.Values(found), byName), replicas}, err
}

// query queries the servers through their monitoring addresses. If no addresses are configured, it
// sends a request to all servers.
func (c *Cluster) query(ctx context.Context) ([]varz, error) {
	if c.NATS.Monitor == "" {
		return c.ping(ctx)
	}
	client, err := c.NATS.monitorClient()
	if err != nil {
		return nil, err
	}
	var all []varz
	var errs []error
	for address := range strings.SplitSeq(c.NATS.Monitor, ",") {
		v, err := readVarz(ctx, client, strings.TrimSpace(address))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, v)
	}
	return all, errors.Join(errs...)
}

func (n *NATS) monitorClient() (*http.Client, error) {
	client := &http.Client{Timeout: serverTimeout}
	if n.CAFile == "" {
		return client, nil
	}
	pem, err := os.ReadFile(n.CAFile)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
	return client, nil
}

// readVarz reads the report of the server with the given monitoring address. After JetStream has
// stopped, varz still contains its configuration. readVarz then removes the configuration.
func readVarz(ctx context.Context, client *http.Client, address string) (v varz, err error) {
	address = strings.TrimSuffix(address, "/")
	response, err := get(ctx, client, address+"/varz")
	if err != nil {
		return v, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return v, fmt.Errorf("journal: nats.monitor: %s responded with %s", response.Request.URL.Redacted(), response.Status)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxVarz)).Decode(&v); err != nil {
		return v, fmt.Errorf("journal: nats.monitor: the response of %s cannot be read: %w", response.Request.URL.Redacted(), err)
	}
	health, err := get(ctx, client, address+"/healthz?js-enabled-only=true")
	if err != nil {
		return v, err
	}
	defer func() { _ = health.Body.Close() }()
	if health.StatusCode == http.StatusServiceUnavailable {
		v.JetStream.Config = nil
	}
	return v, nil
}

func get(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("journal: nats.monitor: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("journal: nats.monitor: %w", err)
	}
	return response, nil
}

// ping queries all servers with one request. It returns no reports if the request is not permitted.
func (c *Cluster) ping(ctx context.Context) ([]varz, error) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	responses, err := c.NC.SubscribeSync(c.NC.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = responses.Unsubscribe() }()
	if err := c.NC.PublishRequest(subjectVarz, responses.Subject, nil); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []varz
	for {
		m, err := responses.NextMsgWithContext(ctx)
		if err != nil || m.Header.Get("Status") == "503" {
			return all, nil // no more responses
		}
		var response struct {
			Data varz `json:"data"`
		}
		if json.Unmarshal(m.Data, &response) == nil && response.Data.Name != "" {
			all = append(all, response.Data)
		}
		limited, stop := context.WithTimeout(ctx, serversPause)
		defer stop()
		ctx = limited
	}
}

// peers returns the names of the known servers that have a copy of a stream, and the unhealthy
// replicas.
func (c *Cluster) peers(ctx context.Context) (names []string, replicas []journal.Replica) {
	for _, name := range c.Streams {
		limited, cancel := context.WithTimeout(ctx, serverTimeout)
		stream, err := c.JS.Stream(limited, name)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			replicas = append(replicas, journal.Replica{Stream: name, State: journal.ReplicaUnanswered})
			break // requests for other streams would also time out
		}
		info := stream.CachedInfo()
		if info.Cluster == nil {
			continue
		}
		names = append(names, info.Cluster.Leader)
		for _, r := range info.Cluster.Replicas {
			names = append(names, r.Name)
		}
		replicas = append(replicas, unhealthy(info, c.NATS.Replicas)...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), replicas
}

const (
	// replicaSilence is how long a replica may send nothing to its leader before it counts as missing.
	replicaSilence = 10 * time.Second
	// replicaLag is how many operations a responsive replica may be behind. Under load, one of
	// three replicas is always slightly behind.
	replicaLag = 1000
)

// unhealthy returns the replicas of a stream that are missing or behind. replicas is the configured number,
// which may have changed since the stream was created.
func unhealthy(info *jetstream.StreamInfo, replicas int) (all []journal.Replica) {
	stream := info.Config.Name
	switch have := info.Cluster.Replicas; {
	case info.Cluster.Leader == "":
		all = append(all, journal.Replica{Stream: stream, State: journal.ReplicaUnanswered})
	case len(have)+1 < max(replicas, info.Config.Replicas):
		all = append(all, journal.Replica{Stream: stream, State: journal.ReplicaMissing})
	}
	for _, r := range info.Cluster.Replicas {
		silent := r.Active == 0 || r.Active >= replicaSilence // Active is 0 if the replica has never responded to this leader
		switch {
		case r.Offline, !r.Current && silent:
			all = append(all, journal.Replica{Stream: stream, Server: r.Name, State: journal.ReplicaOffline, Lag: r.Lag})
		case !r.Current && r.Lag >= replicaLag:
			all = append(all, journal.Replica{Stream: stream, Server: r.Name, State: journal.ReplicaBehind, Lag: r.Lag})
		}
	}
	return all
}

// refuse returns an error if a server may lose acknowledged calls. It also returns an error if no
// server can be queried. If only some servers do not respond, they may be down, and the other
// servers continue without them.
func (c *Cluster) refuse(all []journal.Server) error {
	for _, s := range all {
		if s.Version != "" && !atLeast(s.Version, minServer) {
			return oldServer(s.Name, s.Version)
		}
		if s.Sync == journal.SyncLazy && !c.NATS.AcceptLazySync {
			return fmt.Errorf("journal: %w: %s has sync_interval %s, so a power cut of several servers loses calls that they have not written. "+
				"Set\n\n\tjetstream { sync_interval: always }\n\nin its configuration and restart it, or accept the risk with --accept-lazy-sync or nats.acceptLazySync",
				ErrLazySync, s.Name, s.SyncInterval)
		}
	}
	known := func(s journal.Server) bool { return s.Sync != journal.SyncUnknown }
	if c.NATS.Monitor == "" && !c.NATS.AcceptLazySync && !slices.ContainsFunc(all, known) {
		return fmt.Errorf("journal: %w: no server responds to %s for this user. Set nats.monitor to the monitoring addresses of the servers, "+
			"such as http://a:8222,http://b:8222, or set nats.acceptLazySync: true to accept that a power cut of several servers can lose calls",
			ErrUnknownSync, subjectVarz)
	}
	return nil
}

func oldServer(name, version string) error {
	return fmt.Errorf("journal: the NATS server %s has version %s; %d.%d.%d or newer is required: older servers can lose calls that they have acknowledged "+
		"if the power fails after they compact their files, even with sync_interval: always. Upgrade the server",
		name, version, minServer[0], minServer[1], minServer[2])
}

// Report logs changes that operators should know about.
func (c *Cluster) Report(changed State, err error) {
	for _, r := range changed.Replicas {
		c.Log.Warn("the cluster lacks a replica; another failure may stop it or lose calls", "replica", r.String())
	}
	var unknown []string
	for _, s := range changed.Servers {
		switch {
		case s.Version != "" && !atLeast(s.Version, minServer):
			c.Log.Error("calls may be lost", "error", oldServer(s.Name, s.Version))
		case s.Sync == journal.SyncLazy:
			c.Log.Warn("a server of the cluster acknowledges calls before they are on its disk; a power cut of several can lose them",
				"server", s.Name, "sync_interval", s.SyncInterval)
		case s.Sync == journal.SyncUnknown:
			unknown = append(unknown, s.Name)
		}
	}
	if len(unknown) > 0 {
		c.Log.Warn("servers of the cluster do not report whether they sync calls before they acknowledge them; set nats.monitor to their monitoring addresses",
			"servers", unknown, "error", err)
	}
}
