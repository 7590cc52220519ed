package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// minServer is the oldest server that has schedules and loses no acknowledged message
// when it compacts.
var minServer = [2]int{2, 15}

// connect opens the two connections: one for the calls that come in, so that
// what is read does not wait behind them, and one for the rest.
func (j *Journal) connect(ctx context.Context) error {
	var err error
	if j.in, err = j.dial("in"); err != nil {
		return err
	}
	if j.nc, err = j.dial("out"); err != nil {
		return err
	}
	if j.js, err = jetstream.New(j.nc, jetstream.WithDefaultTimeout(requestPatience)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if j.options.NATS == nil {
		return nil
	}
	return j.checkCluster(ctx)
}

func (j *Journal) dial(what string) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("analytics collector, " + what), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { j.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { j.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			level := slog.LevelWarn
			if last := j.warned.Swap(&err); last != nil && (*last).Error() == err.Error() {
				level = slog.LevelDebug // such as credentials that are refused 20 times a second
			}
			j.log.Log(context.Background(), level, "nats", "error", err)
		}),
	}
	servers := ""
	if j.options.NATS == nil {
		options = append(options, nats.InProcessServer(j.server))
	} else {
		servers = j.options.NATS.URL
		options = append(options, j.options.NATS.connectOptions()...)
	}
	nc, err := nats.Connect(servers, options...)
	if err != nil {
		return nil, fmt.Errorf("journal: connecting to %s: %w", cmp.Or(withoutUsers(servers), "the embedded server"), withoutURL(err))
	}
	return nc, nil
}

// withoutUsers leaves users, passwords and tokens out of the addresses of servers.
func withoutUsers(urls string) string {
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

// withoutURL leaves out the URL that could not be parsed: it may hold a password.
func withoutURL(err error) error {
	if bad := (*url.Error)(nil); errors.As(err, &bad) {
		return fmt.Errorf("it is no URL: %w", bad.Err)
	}
	return err
}

func (n *NATS) connectOptions() []nats.Option {
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
		// Credentials that were refused may be good again, or renewed in their file.
		nats.IgnoreAuthErrorAbort())
}

// checkCluster refuses a cluster that cannot do what is needed, before anything
// is stored.
func (j *Journal) checkCluster(ctx context.Context) error {
	version := j.nc.ConnectedServerVersion()
	if !atLeast(version, minServer) {
		return oldServer(j.nc.ConnectedUrlRedacted(), version)
	}
	if have, need := j.nc.MaxPayload(), j.options.messageBytes(); have < need {
		return fmt.Errorf("journal: the NATS server %s takes messages of at most %d bytes; %d are needed for calls of at most %d: raise max_payload there",
			j.nc.ConnectedUrlRedacted(), have, need, max(j.options.CallBytes, groupBytes))
	}
	if _, err := j.js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return fmt.Errorf("journal: JetStream is not enabled on the NATS server %s for this user; enable it there: %w", j.nc.ConnectedUrlRedacted(), err)
		}
		return fmt.Errorf("journal: JetStream on %s does not answer: %w", j.nc.ConnectedUrlRedacted(), err)
	}
	all, _ := j.lookAtServers(ctx) // keepServers says which did not answer
	return j.refuseServers(all)
}

// atLeast compares the first two numbers of a version.
func atLeast(version string, want [2]int) bool {
	var have [2]int
	for i, part := range strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3) {
		if i == len(have) {
			break
		}
		n, err := strconv.Atoi(part)
		if err != nil {
			return false
		}
		have[i] = n
	}
	return have[0] > want[0] || have[0] == want[0] && have[1] >= want[1]
}
