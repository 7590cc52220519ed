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

// What a cluster promises depends on a setting of its servers: by default they
// acknowledge messages that are written to the disk up to two minutes later. So each
// of them is asked, by its monitoring address, or by a request that its system account
// may let through. What is not known is said.

const (
	// serverPatience is how long a server may take to say how it is set up.
	serverPatience = 2 * time.Second
	// serversPause is how long no server may answer until it is taken that all have.
	serversPause = 500 * time.Millisecond
	// maxVarz bounds what a server tells about itself.
	maxVarz = 4 << 20
	// subjectVarz is where all servers say how they are set up.
	subjectVarz = "$SYS.REQ.SERVER.PING.VARZ"
)

// ErrLazySync says that a server of the cluster acknowledges calls before they are on
// its disk.
var ErrLazySync = errors.New("a server of the cluster acknowledges calls before they are on its disk")

// Known are those of the cluster, as they were last seen.
type Known struct {
	mu    sync.Mutex // guards what follows
	known []journal.Server
}

// All returns them.
func (s *Known) All() []journal.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.known)
}

// Set replaces them, and returns those that are new or have changed.
func (s *Known) Set(now []journal.Server) (changed []journal.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed = slices.DeleteFunc(slices.Clone(now), func(n journal.Server) bool { return slices.Contains(s.known, n) })
	s.known = now
	return changed
}

// A Cluster is servers that others run.
type Cluster struct {
	NATS    *NATS
	NC      *nats.Conn
	JS      jetstream.JetStream
	Log     *slog.Logger
	Streams []string // names of those that must be there
}

// varz is what a server says about itself.
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

// server returns a server that has JetStream.
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

// Look asks the servers how they are set up. It returns them by name, and an
// error where not all could be asked.
func (c *Cluster) Look(ctx context.Context) ([]journal.Server, error) {
	told, err := c.ask(ctx)
	found := map[string]journal.Server{}
	for i := range told {
		if v := &told[i]; v.JetStream.Config != nil && v.Cluster.Name == c.NC.ConnectedClusterName() {
			found[v.Name] = v.server()
		}
	}
	for _, name := range c.peers(ctx) {
		if _, ok := found[name]; !ok {
			found[name] = journal.Server{Name: name, Sync: journal.SyncUnknown}
		}
	}
	// The version of the one that we talk with is known in any case.
	if name := c.NC.ConnectedServerName(); name != "" {
		s := found[name]
		s.Name, s.Sync = name, cmp.Or(s.Sync, journal.SyncUnknown)
		s.Version = cmp.Or(s.Version, c.NC.ConnectedServerVersion())
		found[name] = s
	}
	return slices.SortedFunc(maps.Values(found), func(a, b journal.Server) int { return cmp.Compare(a.Name, b.Name) }), err
}

// ask asks by the monitoring addresses, or, where there are none, by a request.
func (c *Cluster) ask(ctx context.Context) ([]varz, error) {
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
	client := &http.Client{Timeout: serverPatience}
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

func readVarz(ctx context.Context, client *http.Client, address string) (v varz, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/varz", nil)
	if err != nil {
		return v, fmt.Errorf("journal: nats.monitor: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return v, fmt.Errorf("journal: nats.monitor: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return v, fmt.Errorf("journal: nats.monitor: %s answers %s", request.URL.Redacted(), answer.Status)
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxVarz)).Decode(&v); err != nil {
		return v, fmt.Errorf("journal: nats.monitor: what %s answers cannot be read: %w", request.URL.Redacted(), err)
	}
	return v, nil
}

// ping asks all servers at once. Without the right to do so nobody answers.
func (c *Cluster) ping(ctx context.Context) ([]varz, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	answers, err := c.NC.SubscribeSync(c.NC.NewInbox())
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := c.NC.PublishRequest(subjectVarz, answers.Subject, nil); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var all []varz
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil || m.Header.Get("Status") == "503" {
			return all, nil // all that were to answer have, or none will
		}
		var answer struct {
			Data varz `json:"data"`
		}
		if json.Unmarshal(m.Data, &answer) == nil && answer.Data.Name != "" {
			all = append(all, answer.Data)
		}
		limited, stop := context.WithTimeout(ctx, serversPause)
		defer stop()
		ctx = limited
	}
}

// peers returns the servers that have one of the streams, as far as they answer.
func (c *Cluster) peers(ctx context.Context) (names []string) {
	for _, name := range c.Streams {
		limited, cancel := context.WithTimeout(ctx, serverPatience)
		stream, err := c.JS.Stream(limited, name)
		cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			break // no more is known now
		}
		if cluster := stream.CachedInfo().Cluster; cluster != nil {
			names = append(names, cluster.Leader)
			for _, r := range cluster.Replicas {
				names = append(names, r.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// refuse returns an error where a server may lose calls that it has
// acknowledged.
func (c *Cluster) refuse(all []journal.Server) error {
	for _, s := range all {
		if s.Version != "" && !atLeast(s.Version, minServer) {
			return oldServer(s.Name, s.Version)
		}
		if s.Sync == journal.SyncLazy && !c.NATS.AcceptLazySync {
			return fmt.Errorf("journal: %w: %s has sync_interval %s, and a power cut of several servers loses what they had not written. "+
				"Write\n\n\tjetstream { sync_interval: always }\n\ninto its configuration and restart it, or start with --accept-lazy-sync, or nats.acceptLazySync, to go on as it is",
				ErrLazySync, s.Name, s.SyncInterval)
		}
	}
	return nil
}

func oldServer(name, version string) error {
	return fmt.Errorf("journal: the NATS server %s has version %s; %d.%d.%d or newer is required: older servers can lose calls that they have acknowledged "+
		"if the power fails after they compact their files, even with sync_interval: always. Upgrade the server",
		name, version, minServer[0], minServer[1], minServer[2])
}

// Report logs what of servers an operator should know.
func (c *Cluster) Report(changed []journal.Server, err error) {
	var unknown []string
	for _, s := range changed {
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
		c.Log.Warn("whether servers of the cluster bring calls to the disk before they acknowledge them is not known; name their monitoring addresses in nats.monitor",
			"servers", unknown, "error", err)
	}
}
