package store

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// IsTransient reports whether an operation on a cluster may succeed later. This is the case if the
// servers do not respond yet, are electing a leader, or do not know a new stream or consumer yet.
func IsTransient(err error) bool {
	if isOneOf(err, lostConnection) || isOneOf(err, appearing) || isOneOf(err, noResponse) || isUndecided(err) {
		return true
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return network.Op != "remote error" // TLS alerts are permanent
	}
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode != codeStoreFailed && (refused.Code == http.StatusServiceUnavailable ||
		refused.ErrorCode == codeNoPeers && !strings.Contains(refused.Description, "storage"))
}

var (
	// lostConnection contains the errors of a connection that is not established.
	lostConnection = []error{
		nats.ErrNoServers, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
		nats.ErrStaleConnection, nats.ErrNoInfoReceived, io.EOF, io.ErrUnexpectedEOF,
	}
	// appearing contains the errors for an object that is being created, possibly by another
	// collector. At that time, the object does not exist and cannot be created.
	appearing = []error{
		jetstream.ErrStreamNotFound, jetstream.ErrStreamNameAlreadyInUse, jetstream.ErrBucketNotFound,
		jetstream.ErrConsumerNotFound, jetstream.ErrConsumerExists, jetstream.ErrConsumerDoesNotExist,
	}
	// noResponse contains the errors of requests during an election.
	noResponse = []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, journal.ErrNoResponse}
)

func isOneOf(err error, all []error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(err, one) })
}

// codeNoPeers is the server's error code for a stream without suitable servers. The servers are
// unknown yet, offline or, if the description says so, out of storage.
const codeNoPeers = 10005

const (
	// clusterTimeout limits the time for all attempts. ClusterPause is the time between two
	// attempts.
	clusterTimeout = 30 * time.Second
	// attemptTimeout limits the time for one attempt, which consists of a few requests.
	attemptTimeout = 2 * RequestTimeout
	ClusterPause   = 250 * time.Millisecond
)

// Retry retries an operation on a cluster while it fails with a transient error. Each attempt has a
// time limit, because a server's response may be lost.
func (s *Store) Retry(ctx context.Context, try func(context.Context) error) error {
	if !s.Shared {
		return try(ctx)
	}
	attempt := func() error {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		return try(ctx)
	}
	for begin, tries := time.Now(), 1; ; tries++ {
		err := attempt()
		if err == nil || !IsTransient(err) || ctx.Err() != nil || time.Since(begin) > clusterTimeout {
			return err
		}
		if tries == 1 {
			s.Log.Warn("the cluster is not ready; trying again", "error", err)
		}
		if pause.For(ctx, ClusterPause) != nil {
			return err
		}
	}
}
