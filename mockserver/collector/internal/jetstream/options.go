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
	// groupCalls and groupBytes bound what is published as one message. A message
	// costs one write to the disk, however many batches are in it.
	groupCalls = record.PartCalls * record.MaxParts
	groupBytes = 896 << 10 // decompressed
	groupIDs   = 48 << 10
	// maxHeaders is how many bytes the headers of a message may have.
	maxHeaders = 64 << 10
)

// Options say where a journal is and how much it keeps.
type Options struct {
	// Dir is the directory of an embedded server. It is made if it is not there,
	// and must be on a disk of this machine. Ignored where NATS is set.
	Dir string
	// NATS is an existing cluster. Nil means an embedded server.
	NATS *NATS
	// Name is the prefix of all streams and subjects: several collectors with
	// different names can share a cluster, and those with the same name share
	// their work. Defaults to "analytics".
	Name string

	// SyncInterval is how often an embedded server brings what was written to
	// the disk. Zero means before every answer: then a power cut loses nothing.
	// With one second it loses up to the last second of accepted calls, for which Open
	// does not ask; a kill of the process loses nothing either way. A cluster has its
	// own setting.
	SyncInterval time.Duration

	// AcceptLoss has Open go on with what is left where it finds damage, instead of
	// ErrDamaged. The calls that were pending and are no longer stored are counted as
	// lost in the ledgers, with what was damaged; all others go on. It holds for what
	// Open finds, not for what is damaged later. Defaults to false.
	AcceptLoss bool

	// CallBytes is how many bytes a call may have that is appended. A cluster whose
	// servers take no messages of that size is refused. Defaults to 896 KiB; an
	// embedded server takes up to 7 MiB.
	CallBytes int
	// MaxBytes bounds the calls that are stored, as they are compressed. Beyond
	// it Append answers that the journal is full. Defaults to 8 GiB.
	MaxBytes int64
	// Keep is how long calls stay when every destination is done with them, for
	// replays and to recognise those that are sent again; when the journal is
	// three quarters full they go earlier. A call that is still pending after
	// that time is given up: it is listed as failed. Defaults to 6 hours.
	Keep time.Duration
	// KeepFailed is how long failed calls can be replayed, and FailedBytes how
	// many of them: the oldest go first. Default to 7 days and 1 GiB.
	KeepFailed  time.Duration
	FailedBytes int64
	// KeepAttempts and AttemptsBytes bound the log of attempts. Default to 7
	// days and 512 MiB.
	KeepAttempts  time.Duration
	AttemptsBytes int64

	// Logger gets what an operator should know. Defaults to slog.DiscardHandler.
	Logger *slog.Logger
}

// A NATS is a cluster that is there already.
type NATS = servers.NATS

// withDefaults returns the options as they count, and makes the directory.
func (o Options) withDefaults() (Options, error) {
	o, err := o.withLimits()
	switch {
	case err != nil:
		return o, err
	case o.NATS != nil && o.NATS.URL == "":
		return o, errors.New("journal: NATS has no URL; give one, as nats://host:4222")
	case o.NATS != nil:
		o.Dir = ""
		return o, nil
	case o.Dir == "":
		return o, errors.New("journal: it needs a data directory, or a NATS cluster")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return o, fmt.Errorf("journal: the data directory: %w", err)
	}
	return o, nil
}

// withLimits returns the options that do not say where the journal is.
func (o Options) withLimits() (Options, error) {
	if o.Name == "" {
		o.Name = "analytics"
	}
	for i := range len(o.Name) {
		if !record.IsPlain(o.Name[i]) {
			return o, fmt.Errorf("journal: the name %q may have letters, digits, - and _ only", o.Name)
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

// messageBytes is how large a message may get.
func (o *Options) messageBytes() int64 {
	return int64(s2.MaxEncodedLen(max(o.CallBytes, groupBytes)) + maxHeaders)
}

func setDefault[T int | int64 | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// howToGoOn says what an operator can do about damage.
func (o *Options) howToGoOn() string {
	where := "the streams"
	if o.Dir != "" {
		where = "the directory " + o.Dir
	}
	return "Nothing was removed. Restore " + where + " from a backup, or start once with --accept-loss to go on with what is left"
}
