// Command e2ecli sends events with this module's client and prints the result. Input and output are
// JSON. The service's end-to-end test suite has such a program for each client library:
//
//	e2ecli --input '{"writeKey":"k","apiHost":"http://127.0.0.1:8765","sequences":[
//		{"delayMs":0,"events":[{"type":"track","event":"Signed Up","userId":"u"}]}]}'
//
// Without --input, it reads standard input. It writes one object to standard output, for example
//
//	{"success":true,"sentBatches":1}
//	{"success":false,"error":"analytics: 1 call not delivered: …","sentBatches":0}
//
// The exit status is 0 after a success and 1 after a failure. The client's log is written to standard
// error.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-45eadc4a/analytics-go"
)

// input is the JSON input of the command.
type input struct {
	WriteKey  string     `json:"writeKey"`
	APIHost   string     `json:"apiHost"` // URL of the collector; defaults to the service's URL
	CDNHost   string     `json:"cdnHost"` // URL for reading the source's settings; if empty, settings are not read
	Sequences []sequence `json:"sequences"`
	Config    config     `json:"config"`
}

// sequence is a list of events to send in order.
type sequence struct {
	DelayMs int               `json:"delayMs"` // pause in milliseconds before the first event
	Events  []json.RawMessage `json:"events"`
}

// config contains the options of the client. A zero field uses the default.
type config struct {
	FlushAt       int  `json:"flushAt"`
	FlushInterval int  `json:"flushInterval"` // milliseconds; defaults to 1000
	MaxRetries    *int `json:"maxRetries"`    // number of retries after the first attempt; defaults to 3
	Timeout       int  `json:"timeout"`       // time limit of the shutdown in seconds; defaults to 75
}

// These are the defaults of the service's own test programs.
const (
	defaultFlushInterval = 1000
	defaultMaxRetries    = 3
	defaultTimeout       = 75
)

// output is the JSON output of the command.
type output struct {
	Success     bool   `json:"success"`
	Error       string `json:"error,omitempty"`
	SentBatches int64  `json:"sentBatches"` // number of batches with a 2xx response
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs the command and returns its exit status.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var in input
	sent, err := int64(0), readInput(&in, args, stdin, stderr)
	if err == nil {
		sent, err = send(&in, stderr)
	}
	out := output{Success: err == nil, SentBatches: sent}
	if err != nil {
		out.Error = err.Error()
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil || !out.Success {
		return 1
	}
	return 0
}

func readInput(in *input, args []string, stdin io.Reader, stderr io.Writer) error {
	flags := flag.NewFlagSet("e2ecli", flag.ContinueOnError)
	flags.SetOutput(stderr)
	text := flags.String("input", "", "input as `JSON`; defaults to standard input")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; use --input", flags.Arg(0))
	}
	if *text == "" {
		all, err := io.ReadAll(stdin)
		if err != nil {
			return err
		}
		*text = string(all)
	}
	if err := json.Unmarshal([]byte(*text), in); err != nil {
		return fmt.Errorf("invalid input: %w", err)
	}
	return nil
}

// counter is a transport that counts batches with a 2xx response.
type counter struct {
	http.RoundTripper
	sent atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost && res.StatusCode/100 == 2 {
		c.sent.Add(1)
	}
	return res, err
}

// send sends all sequences and returns the number of accepted batches. The error contains the first
// event that could not be sent and the number of undelivered calls.
func send(in *input, stderr io.Writer) (sent int64, err error) {
	c := &counter{RoundTripper: http.DefaultTransport}
	client, err := analytics.NewWithConfig(in.WriteKey, clientConfig(in, c, stderr))
	if err != nil {
		return 0, err
	}
	n := 0
	for _, s := range in.Sequences {
		time.Sleep(time.Duration(s.DelayMs) * time.Millisecond)
		for _, event := range s.Events {
			if wrong := enqueue(client, event); wrong != nil && err == nil {
				err = fmt.Errorf("event %d: %w", n, wrong)
			}
			n++
		}
	}
	limit := time.Duration(cmp.Or(max(in.Config.Timeout, 0), defaultTimeout)) * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err = errors.Join(err, client.Shutdown(ctx))
	return c.sent.Load(), err
}

func clientConfig(in *input, transport http.RoundTripper, stderr io.Writer) analytics.Config {
	retries := defaultMaxRetries
	if in.Config.MaxRetries != nil {
		retries = max(*in.Config.MaxRetries, 0)
	}
	return analytics.Config{
		Endpoint:         in.APIHost,
		SettingsEndpoint: in.CDNHost,
		FlushAt:          in.Config.FlushAt,
		FlushAfter:       time.Duration(cmp.Or(max(in.Config.FlushInterval, 0), defaultFlushInterval)) * time.Millisecond,
		MaxAttempts:      1 + retries,
		HTTPClient:       &http.Client{Transport: transport},
		Logger:           log.New(stderr, "", log.Lmicroseconds),
		Verbose:          true,
	}
}

// messages returns a new message for each type of event.
var messages = map[string]func() analytics.Call{
	"alias":    func() analytics.Call { return &analytics.Alias{} },
	"group":    func() analytics.Call { return &analytics.Group{} },
	"identify": func() analytics.Call { return &analytics.Identify{} },
	"page":     func() analytics.Call { return &analytics.Page{} },
	"screen":   func() analytics.Call { return &analytics.Screen{} },
	"track":    func() analytics.Call { return &analytics.Track{} },
}

// enqueue decodes an event and queues it as a call.
func enqueue(client *analytics.Client, event []byte) error {
	var kind struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(event, &kind); err != nil {
		return err
	}
	message, ok := messages[kind.Type]
	if !ok {
		return fmt.Errorf("unknown type %q; use one of %s", kind.Type, strings.Join(slices.Sorted(maps.Keys(messages)), ", "))
	}
	m := message()
	decoder := json.NewDecoder(bytes.NewReader(event))
	decoder.UseNumber() // large numbers keep their digits
	if err := decoder.Decode(m); err != nil {
		return err
	}
	return client.Enqueue(context.Background(), m)
}
