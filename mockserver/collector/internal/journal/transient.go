package journal

import (
	"context"
	"errors"
	"net/http"
	"strings"

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
