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

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// IsTransient reports whether what failed on a cluster may succeed later: its servers
// do not answer yet, are choosing a leader, or do not know yet what another server or
// collector has just created.
func IsTransient(err error) bool {
	if isOneOf(err, lostConnection) || isOneOf(err, appearing) || isOneOf(err, unanswered) {
		return true
	}
	if network, ok := errors.AsType[*net.OpError](err); ok {
		return network.Op != "remote error" // which is a refusal by TLS
	}
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode != codeStoreFailed && (refused.Code == http.StatusServiceUnavailable ||
		refused.ErrorCode == codeNoPeers && !strings.Contains(refused.Description, "storage"))
}

var (
	// lostConnection is what a connection says that is not made, or is made again.
	lostConnection = []error{
		nats.ErrNoServers, nats.ErrConnectionClosed, nats.ErrConnectionReconnecting, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
		nats.ErrStaleConnection, nats.ErrNoInfoReceived, io.EOF, io.ErrUnexpectedEOF,
	}
	// appearing is what a server says of what is being created, maybe by another
	// collector: it is not there, and cannot be created either.
	appearing = []error{
		jetstream.ErrStreamNotFound, jetstream.ErrStreamNameAlreadyInUse, jetstream.ErrBucketNotFound,
		jetstream.ErrConsumerNotFound, jetstream.ErrConsumerExists, jetstream.ErrConsumerDoesNotExist,
	}
	// unanswered is what becomes of a request while a leader is chosen.
	unanswered = []error{context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse, ErrNoAnswer}
)

func isOneOf(err error, all []error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(err, one) })
}

// codeNoPeers is the answer where a stream finds no servers: they are not known yet,
// or not online, or, as it says then, have no storage left.
const codeNoPeers = 10005

const (
	// clusterPatience is how long it is tried again what a cluster does not do at
	// once, with a ClusterPause between.
	clusterPatience = 30 * time.Second
	// attemptPatience is how long one attempt may take, which is of a few requests.
	attemptPatience = 2 * RequestPatience
	ClusterPause    = 250 * time.Millisecond
)

// Patiently tries again on a cluster what fails for a reason that may pass. An attempt has
// an end of its own, however long ctx lasts: the answer of a server may be lost.
func (s *Store) Patiently(ctx context.Context, try func(context.Context) error) error {
	if !s.Shared {
		return try(ctx)
	}
	attempt := func() error {
		ctx, cancel := context.WithTimeout(ctx, attemptPatience)
		defer cancel()
		return try(ctx)
	}
	for begin, tries := time.Now(), 1; ; tries++ {
		err := attempt()
		if err == nil || !IsTransient(err) || ctx.Err() != nil || time.Since(begin) > clusterPatience {
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
