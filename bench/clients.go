package main

import (
	"errors"
	"io"
	"log"
	"os"
	"time"

	"github.com/posthog/posthog-go"
	v3 "github.com/segmentio/analytics-go/v3"

	analytics "github.com/seed-45eadc4a/analytics-go"
	compat "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// A client is a library that is measured. Several goroutines can make calls with it.
type client struct {
	// producer returns a function that makes the i-th call of one goroutine.
	producer func(large bool) func(i int) error
	close    func() error
	// lost returns the number of calls that the library reports as lost. It is called after
	// close. It is nil if the library does not report lost calls.
	lost func() int64
}

// clients contains the libraries, keyed by their names in the tables. They use the settings that
// their documentation recommends.
var clients = map[string]func(job) (*client, error){
	"ours":    newOurs,
	"spool":   newSpool,
	"v3":      newV3,
	"compat":  newCompat,
	"posthog": newPosthog,
	"append":  newAppender,
	"copy":    newCopier,
	"post":    newPoster,
}

// clientNames are the clients that are measured by default, in the order of the tables.
var clientNames = []string{"ours", "v3", "posthog"}

// referenceNames contains programs that do the least possible work for a call and send nothing.
// Their cost shows the speed of the machine.
var referenceNames = []string{"append", "copy"}

// config returns the settings of this repository's client. If j.Patient is set, the client
// blocks the caller when it is full, as other libraries do, and its memory budget is 4 MiB
// unless j.Roomy is set. Otherwise a full client refuses calls.
func (j job) config() analytics.Config {
	config := analytics.Config{Endpoint: j.Endpoint, FlushAt: j.Batch, Spool: j.Spool, Gzip: j.Gzip, Logger: log.New(io.Discard, "", 0)}
	if j.Patient {
		config.WhenFull = analytics.Block
		if !j.Roomy {
			config.MaxBytes = 4 << 20
		}
	}
	return config
}

func newOurs(j job) (*client, error) {
	return open(j.config(), func(c *analytics.Client, large bool) func(i int) error {
		var tracks [variety]*analytics.Track
		for i := range tracks {
			tracks[i] = ourTrack(large, i)
		}
		return func(i int) error { return c.Track(tracks[i%variety]) }
	})
}

// newSpool returns this repository's client with a spool.
func newSpool(j job) (*client, error) {
	dir, err := os.MkdirTemp("", "bench-spool-")
	if err != nil {
		return nil, err
	}
	j.Spool = dir
	c, err := newOurs(j)
	if err != nil {
		return nil, err
	}
	end := c.close
	c.close = func() error { return errors.Join(end(), os.RemoveAll(dir)) }
	return c, nil
}

// open opens this repository's client. producer returns a function that makes calls with it.
func open(config analytics.Config, producer func(c *analytics.Client, large bool) func(i int) error) (*client, error) {
	c, err := analytics.NewWithConfig("bench-write-key", config)
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(large bool) func(int) error { return producer(c, large) },
		close:    c.Close,
		lost: func() int64 {
			s := c.Stats()
			return s.Dropped.Total() + s.Pending + s.Rejected.Total()
		},
	}, nil
}

type silent struct{}

func (silent) Logf(string, ...interface{})   {}
func (silent) Debugf(string, ...interface{}) {}
func (silent) Warnf(string, ...interface{})  {}
func (silent) Errorf(string, ...interface{}) {}

func newV3(j job) (*client, error) {
	c, err := v3.NewWithConfig("bench-write-key", v3.Config{Endpoint: j.Endpoint, BatchSize: j.Batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return &client{producer: producer(j, v3Track, func(t *v3.Track) error { return c.Enqueue(*t) }, nil), close: c.Close}, nil
}

// newCompat returns this repository's client with the API of version 3. If the client is full, a
// producer waits, because version 3 itself is never full.
func newCompat(j job) (*client, error) {
	c, err := compat.NewWithConfig("bench-write-key", compat.Config{Endpoint: j.Endpoint, BatchSize: j.Batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return &client{producer: producer(j, compatTrack, func(t *compat.Track) error { return c.Enqueue(*t) }, compat.ErrTooManyRequests), close: c.Close}, nil
}

func newPosthog(j job) (*client, error) {
	c, err := posthog.NewWithConfig("bench-write-key", posthog.Config{Endpoint: j.Endpoint, BatchSize: j.Batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	// Its documentation recommends retrying if the queue is full.
	return &client{producer: producer(j, posthogCapture, func(m *posthog.Capture) error { return c.Enqueue(*m) }, posthog.ErrQueueFull), close: c.Close}, nil
}

// producer returns a client.producer that passes prepared messages to enqueue. If enqueue returns
// the error full and j.Patient is set, it tries again.
func producer[M any](j job, message func(large bool, i int) M, enqueue func(*M) error, full error) func(large bool) func(i int) error {
	return func(large bool) func(int) error {
		var all [variety]M
		for i := range all {
			all[i] = message(large, i)
		}
		return func(i int) error {
			err := enqueue(&all[i%variety])
			for j.Patient && full != nil && errors.Is(err, full) {
				time.Sleep(time.Millisecond)
				err = enqueue(&all[i%variety])
			}
			return err
		}
	}
}

var errUnknownClient = errors.New("unknown client")
