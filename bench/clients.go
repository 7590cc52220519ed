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

// A client is a library under test. Calls may be made by many goroutines.
type client struct {
	// producer returns what makes the i-th call of one goroutine.
	producer func(large bool) func(i int) error
	close    func() error
	// lost says, after close, how many calls the library knows it lost; nil if
	// it cannot say.
	lost func() int64
}

// clients are the libraries by their names in the report, each with the
// settings its documentation gives for a batch size.
var clients = map[string]func(endpoint string, o setup) (*client, error){
	"ours":    newOurs,
	"spool":   newSpool,
	"v3":      newV3,
	"compat":  newCompat,
	"posthog": newPosthog,
	"append":  newAppender,
	"copy":    newCopier,
}

// clientNames is the order of clients in the report. What it leaves out is
// measured if asked for.
var clientNames = []string{"ours", "v3", "posthog"}

// referenceNames are no clients, but what each has to do at the least: their cost shows
// how fast the machine is. They send nothing.
var referenceNames = []string{"append", "copy"}

// A setup is what a run asks of a client.
type setup struct {
	batch int
	// patient clients hold the caller when they are full, as the peers do;
	// others refuse the call.
	patient bool
	roomy   bool // with the default budget of memory, if patient
	gzip    bool
}

func (o setup) config(endpoint string) analytics.Config {
	config := analytics.Config{Endpoint: endpoint, FlushAt: o.batch, Gzip: o.gzip, Logger: log.New(io.Discard, "", 0)}
	if o.patient {
		config.WhenFull = analytics.Block
		if !o.roomy {
			config.MaxBytes = 4 << 20
		}
	}
	return config
}

func newOurs(endpoint string, o setup) (*client, error) {
	return open(o.config(endpoint))
}

// newSpool is ours with a spool.
func newSpool(endpoint string, o setup) (*client, error) {
	dir, err := os.MkdirTemp("", "bench-spool-")
	if err != nil {
		return nil, err
	}
	config := o.config(endpoint)
	config.Spool = dir
	c, err := open(config)
	if err != nil {
		return nil, err
	}
	end := c.close
	c.close = func() error { return errors.Join(end(), os.RemoveAll(dir)) }
	return c, nil
}

func open(config analytics.Config) (*client, error) {
	c, err := analytics.NewWithConfig("bench-write-key", config)
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(large bool) func(int) error {
			var tracks [variety]*analytics.Track
			for i := range tracks {
				tracks[i] = ourTrack(large, i)
			}
			return func(i int) error { return c.Track(tracks[i%variety]) }
		},
		close: c.Close,
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

func newV3(endpoint string, o setup) (*client, error) {
	c, err := v3.NewWithConfig("bench-write-key", v3.Config{Endpoint: endpoint, BatchSize: o.batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(large bool) func(int) error {
			var tracks [variety]v3.Track
			for i := range tracks {
				tracks[i] = v3Track(large, i)
			}
			return func(i int) error { return c.Enqueue(tracks[i%variety]) }
		},
		close: c.Close,
	}, nil
}

// newCompat is the API of version 3 on ours. When it is full, which version 3 never is, a
// producer waits.
func newCompat(endpoint string, o setup) (*client, error) {
	c, err := compat.NewWithConfig("bench-write-key", compat.Config{Endpoint: endpoint, BatchSize: o.batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(large bool) func(int) error {
			var tracks [variety]compat.Track
			for i := range tracks {
				tracks[i] = compatTrack(large, i)
			}
			return func(i int) error {
				err := c.Enqueue(tracks[i%variety])
				for o.patient && errors.Is(err, compat.ErrTooManyRequests) {
					time.Sleep(time.Millisecond)
					err = c.Enqueue(tracks[i%variety])
				}
				return err
			}
		},
		close: c.Close,
	}, nil
}

func newPosthog(endpoint string, o setup) (*client, error) {
	c, err := posthog.NewWithConfig("bench-write-key", posthog.Config{Endpoint: endpoint, BatchSize: o.batch, Logger: silent{}})
	if err != nil {
		return nil, err
	}
	return &client{
		producer: func(large bool) func(int) error {
			var captures [variety]posthog.Capture
			for i := range captures {
				captures[i] = posthogCapture(large, i)
			}
			return func(i int) error {
				err := c.Enqueue(captures[i%variety])
				for o.patient && errors.Is(err, posthog.ErrQueueFull) { // what its documentation says to do
					time.Sleep(time.Millisecond)
					err = c.Enqueue(captures[i%variety])
				}
				return err
			}
		},
		close: c.Close,
	}, nil
}

var errUnknownClient = errors.New("no such client")
