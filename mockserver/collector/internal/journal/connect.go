package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A link stands for the connections as they are, until one is made again.
type link struct {
	lost context.Context
	end  context.CancelFunc // ends lost
}

func newLink() *link {
	l := &link{}
	l.lost, l.end = context.WithCancel(context.Background())
	return l
}

// minServer is the oldest server whose schedules and pause work as we need.
var minServer = [2]int{2, 14}

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
	return j.patiently(ctx, j.checkCluster)
}

func (j *Journal) dial(what string) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("analytics collector, " + what), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { j.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { j.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			j.log.Warn("nats", "error", err)
		}),
	}
	url := ""
	if j.options.NATS == nil {
		options = append(options, nats.InProcessServer(j.server))
	} else {
		url = j.options.NATS.URL
		options = append(options, j.options.NATS.connectOptions()...)
	}
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, fmt.Errorf("journal: connecting to %s: %w", cmp.Or(url, "the embedded server"), err)
	}
	return nc, nil
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
	return append(options, nats.PingInterval(5*time.Second), nats.MaxPingsOutstanding(2), nats.Timeout(2*time.Second))
}

// startPatienceCluster is how long a cluster may take to answer at the start: it
// may be choosing its leaders.
const startPatienceCluster = time.Minute

// patiently does something again as long as a cluster does not answer.
func (j *Journal) patiently(ctx context.Context, do func(context.Context) error) error {
	deadline := time.Now().Add(startPatienceCluster)
	for {
		err := do(ctx)
		if j.options.NATS == nil || !isPassing(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		j.log.Info("the NATS cluster does not answer yet", "error", err)
		if err := sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}

// isPassing tells whether an error may be gone when the cluster has its leaders.
func isPassing(err error) bool {
	for _, passing := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, nats.ErrReconnectBufExceeded,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.Code == 503
}

// checkCluster refuses a cluster that cannot do what is needed, before anything
// is stored.
func (j *Journal) checkCluster(ctx context.Context) error {
	version := j.nc.ConnectedServerVersion()
	if !atLeast(version, minServer) {
		return fmt.Errorf("journal: the NATS server %s has version %s; retries need schedules, which come with %d.%d",
			j.nc.ConnectedUrlRedacted(), version, minServer[0], minServer[1])
	}
	if _, err := j.js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return fmt.Errorf("journal: JetStream is not enabled on the NATS server %s for this user; enable it there: %w", j.nc.ConnectedUrlRedacted(), err)
		}
		return fmt.Errorf("journal: JetStream on %s does not answer: %w", j.nc.ConnectedUrlRedacted(), err)
	}
	return nil
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

// randomNumber names this process among the writers.
func randomNumber() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}
