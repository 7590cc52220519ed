package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// NATS configures an existing cluster.
type NATS struct {
	// URL contains one or more addresses, separated by commas.
	URL string `yaml:"url"`
	// Credentials is the path of a file with a user's JWT and key. Optional.
	Credentials string `yaml:"credentials"`
	// CAFile, and CertFile with KeyFile, configure TLS. By default, the platform's roots are
	// used and there is no client certificate.
	CAFile   string `yaml:"caFile"`
	CertFile string `yaml:"certFile"`
	KeyFile  string `yaml:"keyFile"`
	// Monitor contains monitoring addresses of the servers, such as http://host:8222, separated
	// by commas. These addresses report whether the servers sync messages before they acknowledge
	// them. If Monitor is empty, the servers are queried with $SYS.REQ.SERVER.PING.VARZ. The
	// system account must permit this request.
	Monitor string `yaml:"monitor"`
	// AcceptLazySync accepts servers that acknowledge messages before they sync them.
	// Otherwise Open returns ErrLazySync.
	AcceptLazySync bool `yaml:"acceptLazySync"`
	// Replicas is the number of servers that store each message. Defaults to 3.
	Replicas int `yaml:"replicas"`
}

// minServer is the oldest supported server version. It supports message schedules. With
// sync_interval: always, it also syncs the files that it compacts (nats-server#8475 and #8629).
var minServer = [3]int{2, 15, 1}

// Check returns an error if the cluster does not meet a requirement.
func (c *Cluster) Check(ctx context.Context, call int, need int64) error {
	version := c.NC.ConnectedServerVersion()
	if !atLeast(version, minServer) {
		return oldServer(c.NC.ConnectedUrlRedacted(), version)
	}
	if have := c.NC.MaxPayload(); have < need {
		return fmt.Errorf("journal: the NATS server %s accepts messages of at most %d bytes, but %d bytes are needed for calls of up to %d bytes: increase max_payload on the server",
			c.NC.ConnectedUrlRedacted(), have, need, call)
	}
	if _, err := c.JS.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return fmt.Errorf("journal: JetStream is not enabled on the NATS server %s for this user; enable it there: %w", c.NC.ConnectedUrlRedacted(), err)
		}
		return fmt.Errorf("journal: JetStream on %s does not respond: %w", c.NC.ConnectedUrlRedacted(), err)
	}
	now, _ := c.Inspect(ctx) // Report logs the servers that did not respond
	return c.refuse(now.Servers)
}

// atLeast reports whether a version is want or newer. As in semantic versioning, a pre-release is
// older than its release, and build metadata is ignored. A string that is not a version of three
// numbers is considered older than any version.
func atLeast(version string, want [3]int) bool {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	release, _, preRelease := strings.Cut(version, "-")
	parts := strings.Split(release, ".")
	if len(parts) != len(want) {
		return false
	}
	var have [3]int
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		have[i] = n
	}
	order := slices.Compare(have[:], want[:])
	return order > 0 || order == 0 && !preRelease
}

// WithoutUsers removes users, passwords and tokens from server addresses.
func WithoutUsers(urls string) string {
	servers := strings.Split(urls, ",")
	for i, server := range servers {
		scheme, rest, found := strings.Cut(strings.TrimSpace(server), "://")
		if !found {
			scheme, rest = "", scheme
		}
		servers[i] = strings.TrimPrefix(scheme+"://", "://") + rest[strings.LastIndexByte(rest, '@')+1:]
	}
	return strings.Join(servers, ",")
}

// WithoutURL removes the URL from a parse error, because it may contain a password.
func WithoutURL(err error) error {
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("it is not a URL: %w", bad.Err)
	}
	return err
}

// ConnectOptions returns the options for connections to the cluster.
func (n *NATS) ConnectOptions() []nats.Option {
	var options []nats.Option
	if n.Credentials != "" {
		options = append(options, nats.UserCredentials(n.Credentials))
	}
	if n.CAFile != "" {
		options = append(options, nats.RootCAs(n.CAFile))
	}
	if n.CertFile != "" {
		options = append(options, nats.ClientCert(n.CertFile, n.KeyFile))
	}
	return append(options, nats.PingInterval(1500*time.Millisecond), nats.MaxPingsOutstanding(2), nats.Timeout(2*time.Second),
		nats.FlusherTimeout(2*time.Second),
		// Rejected credentials may become valid later, or may be renewed in their file.
		nats.IgnoreAuthErrorAbort())
}
