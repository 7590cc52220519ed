package journal

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Transient tells whether what Open failed with may pass: the servers of a cluster
// do not answer yet, or are just choosing a leader.
func Transient(err error) bool {
	for _, passing := range []error{
		context.DeadlineExceeded, nats.ErrNoServers, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		return false
	}
	return refused.Code == http.StatusServiceUnavailable ||
		refused.ErrorCode == codeNoPeers && strings.Contains(refused.Description, "offline")
}

// codeNoPeers is the answer where a stream finds no servers: they are not there
// yet, or have no room.
const codeNoPeers = 10005

const (
	// clusterPatience is how long it is tried again what a cluster does not do at
	// once, with a clusterPause between.
	clusterPatience = 30 * time.Second
	clusterPause    = 250 * time.Millisecond
)

// patiently tries again on a cluster what fails for a reason that may pass.
func (j *Journal) patiently(ctx context.Context, try func(context.Context) error) error {
	for deadline := time.Now().Add(clusterPatience); ; {
		err := try(ctx)
		if err == nil || j.options.NATS == nil || !Transient(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if sleep(ctx, clusterPause) != nil {
			return err
		}
	}
}
