package jetstream

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/klauspost/compress/s2"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/record"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/jetstream/servers"
)

const (
	// groupCalls and groupBytes limit the size of a message. Several batches share a message,
	// because each message costs a disk write.
	groupCalls = record.PartCalls * record.MaxParts
	groupBytes = 896 << 10 // decompressed size
	groupIDs   = 48 << 10
	// maxHeaders is the maximum size of a message's headers.
	maxHeaders = 64 << 10
)

// Options configure a journal.
type Options struct {
	// Dir is the directory of the embedded server. It is created if missing, and must be
	// on a local disk. Ignored if NATS is set.
	Dir string
	// NATS is an existing cluster. Nil means an embedded server.
	NATS *NATS
	// Name is the prefix of all streams and subjects. Collectors with different names can
	// share a cluster; collectors with the same name share their work. Defaults to
	// "analytics".
	Name string

	// SyncInterval is the pause between the syncs of an embedded server. If it is zero, the
	// server syncs before every response, and a power cut loses nothing. Otherwise a power cut
	// can lose the calls accepted in the last interval, and Open accepts that loss. A kill
	// of the process never loses calls. A cluster has its own setting.
	SyncInterval time.Duration

	// AcceptLoss makes Open continue with the remaining data instead of returning ErrDamaged.
	// Pending calls that are no longer stored are counted as lost, and the cause is recorded.
	// AcceptLoss does not apply to damage after Open. Defaults to false.
	AcceptLoss bool

	// CallBytes is the maximum size of a call. Open rejects a cluster with a lower message
	// limit. Defaults to 896 KiB; an embedded server accepts up to 7 MiB.
	CallBytes int
	// MaxBytes limits the compressed size of the stored calls. Append returns an error beyond
	// this limit. Defaults to 8 GiB.
	MaxBytes int64
	// Keep is how long finished calls are stored, for replays and to detect duplicates. They are
	// removed earlier when the journal is three quarters full. A call that is still pending after
	// Keep fails permanently. Defaults to 6 hours.
	Keep time.Duration
	// KeepFailed and FailedBytes limit the list of failed calls. The oldest calls are removed
	// first. Default to 7 days and 1 GiB.
	KeepFailed  time.Duration
	FailedBytes int64
	// KeepAttempts and AttemptsBytes limit the log of attempts. Default to 7 days and 512 MiB.
	KeepAttempts  time.Duration
	AttemptsBytes int64

	// Logger receives messages for operators. Defaults to slog.DiscardHandler.
	Logger *slog.Logger
}

// NATS configures the connection to an existing cluster.
type NATS = servers.NATS

// withDefaults validates the options, sets defaults and creates the directory.
func (o Options) withDefaults() (Options, error) {
	o, err := o.withLimits()
	switch {
	case err != nil:
		return o, err
	case o.NATS != nil && o.NATS.URL == "":
		return o, errors.New("journal: NATS has no URL; set one such as nats://host:4222")
	case o.NATS != nil:
		o.Dir = ""
		return o, nil
	case o.Dir == "":
		return o, errors.New("journal: a data directory or a NATS cluster is required")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return o, fmt.Errorf("journal: the data directory: %w", err)
	}
	return o, nil
}

// withLimits validates the options that do not depend on the location, and sets their defaults.
func (o Options) withLimits() (Options, error) {
	if o.Name == "" {
		o.Name = "analytics"
	}
	for i := range len(o.Name) {
		if !record.IsPlain(o.Name[i]) {
			return o, fmt.Errorf("journal: the name %q may only contain letters, digits, - and _", o.Name)
		}
	}
	setDefault(&o.MaxBytes, 8<<30)
	setDefault(&o.Keep, 6*time.Hour)
	setDefault(&o.KeepFailed, 7*24*time.Hour)
	setDefault(&o.FailedBytes, 1<<30)
	setDefault(&o.KeepAttempts, 7*24*time.Hour)
	setDefault(&o.AttemptsBytes, 512<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.NATS != nil {
		nats := *o.NATS
		setDefault(&nats.Replicas, 3)
		o.NATS = &nats
	}
	return o, nil
}

// messageBytes returns the maximum size of a message.
func (o *Options) messageBytes() int64 {
	return int64(s2.MaxEncodedLen(max(o.CallBytes, groupBytes)) + maxHeaders)
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// repairHint returns instructions for an operator who finds damage.
func (o *Options) repairHint() string {
	where := "the streams"
	if o.Dir != "" {
		where = "the directory " + o.Dir
	}
	return "Nothing was removed. Restore " + where + " from a backup, or start once with --accept-loss to continue with the remaining data"
}
