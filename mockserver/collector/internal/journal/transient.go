package journal

import (
	"context"
	"errors"
	"net/http"

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
	return errors.As(err, &refused) && refused.Code == http.StatusServiceUnavailable
}
