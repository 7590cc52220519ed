package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
	j.cluster = j.newCluster()
	return j.cluster.check(ctx, max(j.options.CallBytes, groupBytes), j.options.messageBytes())
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
	addresses := ""
	if j.options.NATS == nil {
		options = append(options, nats.InProcessServer(j.server))
	} else {
		addresses = j.options.NATS.URL
		options = append(options, j.options.NATS.connectOptions()...)
	}
	nc, err := nats.Connect(addresses, options...)
	if err != nil {
		return nil, fmt.Errorf("journal: connecting to %s: %w", cmp.Or(withoutUsers(addresses), "the embedded server"), withoutURL(err))
	}
	return nc, nil
}

func (j *Journal) newCluster() *cluster {
	c := &cluster{nats: j.options.NATS, nc: j.nc, js: j.js, log: j.log}
	for _, config := range j.streams() {
		c.streams = append(c.streams, config.Name)
	}
	return c
}

// serversEvery is how often the servers are asked.
const serversEvery = time.Minute

// keepServers asks the servers now and then: one may be started anew with another
// setting, or another version.
func (j *Journal) keepServers() {
	for {
		all, err := j.cluster.look(j.ctx)
		if j.ctx.Err() == nil {
			j.cluster.report(j.servers.set(all), err)
		}
		if sleep(j.ctx, serversEvery) != nil {
			return
		}
	}
}
