package store

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/datadir"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/journal"
)

func TestIsTransient(t *testing.T) {
	noPeers := func(why string) error {
		return &jetstream.APIError{Code: 400, ErrorCode: codeNoPeers, Description: "no suitable peers for placement" + why}
	}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"unknown servers":                           {noPeers(""), true},
		"offline servers":                           {noPeers(", peer offline"), true},
		"servers without storage":                   {noPeers(", insufficient storage"), false},
		"a server that is not the leader":           {&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		"a message that is being stored":            {&jetstream.APIError{Code: 400, ErrorCode: codeConflict}, true},
		"no leader responds":                        {&noResponseError{journal.ErrNoResponse}, true},
		"a full queue":                              {wrapStorage(&jetstream.APIError{Code: 503, ErrorCode: codeStoreFailed}), false},
		"no network":                                {&net.OpError{Op: "dial", Err: errors.New("no route to host")}, true},
		"a refused certificate":                     {&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, false},
		"a server that syncs lazily":                {servers.ErrLazySync, false},
		"servers that do not report their settings": {servers.ErrUnknownSync, false},
		"damage":          {record.Damaged("calls are missing"), false},
		"another process": {datadir.ErrInUse, false},
		"closed":          {journal.ErrClosed, false},
	} {
		assert.Equal(t, c.want, IsTransient(fmt.Errorf("opening: %w", c.err)), name)
	}
}
