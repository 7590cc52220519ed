package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/store"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// openServers opens the embedded server or connects to the cluster.
func (j *Journal) openServers(ctx context.Context) error {
	if j.options.NATS != nil {
		if err := j.connect(j.options.NATS.URL, j.options.NATS.ConnectOptions()...); err != nil {
			return err
		}
		return j.checkCluster(ctx)
	}
	if err := j.openServer(); err != nil {
		return err
	}
	return j.connect("", nats.InProcessServer(j.local.server))
}

// connect opens two connections: one for incoming calls, and one for everything else. Reads are
// therefore not queued behind calls.
func (j *Journal) connect(addresses string, options ...nats.Option) (err error) {
	if j.conns.in, err = j.dial(addresses, "in", options); err != nil {
		return err
	}
	if j.conns.out, err = j.dial(addresses, "out", options); err != nil {
		return err
	}
	if j.In, err = store.Connected(j.conns.in); err != nil {
		return err
	}
	j.JS, err = store.Connected(j.conns.out)
	return err
}

func (j *Journal) dial(addresses, what string, more []nats.Option) (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("analytics collector, " + what), nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { j.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { j.reconnected() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			level := slog.LevelWarn
			if last := j.conns.warned.Swap(&err); last != nil && (*last).Error() == err.Error() {
				level = slog.LevelDebug // an error such as refused credentials can occur 20 times a second
			}
			j.Log.Log(context.Background(), level, "nats", "error", err)
		}),
	}
	nc, err := nats.Connect(addresses, append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("journal: connecting to %s: %w", cmp.Or(servers.WithoutUsers(addresses), "the embedded server"), servers.WithoutURL(err))
	}
	return nc, nil
}

func (j *Journal) checkCluster(ctx context.Context) error {
	js, err := jetstream.New(j.conns.out, jetstream.WithDefaultTimeout(store.RequestTimeout))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.conns.cluster = &servers.Cluster{NATS: j.options.NATS, NC: j.conns.out, JS: js, Log: j.Log, Streams: j.streamNames()}
	return j.conns.cluster.Check(ctx, max(j.options.CallBytes, groupBytes), j.options.messageBytes())
}

func (j *Journal) streamNames() (names []string) {
	for _, config := range j.streams() {
		names = append(names, config.Name)
	}
	return names
}

const serversEvery = 10 * time.Second

// watchServers checks versions, settings and health of the servers every serversEvery.
func (j *Journal) watchServers() {
	for j.inspectServers(); pause.For(j.Ctx, serversEvery) == nil; j.inspectServers() {
	}
}

func (j *Journal) inspectServers() {
	now, err := j.conns.cluster.Inspect(j.Ctx)
	if j.Ctx.Err() == nil {
		j.conns.cluster.Report(j.conns.servers.Set(now), err)
	}
}

func (j *Journal) disconnected(err error) {
	if err != nil && j.Ctx.Err() == nil && j.Shared {
		j.Log.Warn("lost the connection to NATS; reconnecting", "error", err)
	}
}

// reconnected discards the requests of the previous connection, because their responses are lost.
func (j *Journal) reconnected() {
	j.conns.warned.Store(nil)
	j.Link.Swap(store.NewLink()).End()
	j.queues.Wake()
}
