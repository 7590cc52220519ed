package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// sendFlags are the values of the flags of a send command.
type sendFlags struct {
	client
	writeKey string
	wait     time.Duration
	texts    map[string]*string // values of string fields, keyed by field
	objects  map[string]*string
}

// A kind is a type of call that can be sent.
type kind struct {
	name, short, example string
	texts                []member // string fields in addition to everyText
	objects              []member
	required             []string // names of required flags
	oneOf                []string // names of flags; at least one of them is required
}

// A member is a field of a call with its flag.
type member struct{ name, flag, help string }

var (
	userFlags  = []string{"user-id", "anonymous-id"}
	traits     = member{"traits", "traits", "the traits, as a JSON object"}
	properties = member{"properties", "properties", "the properties, as a JSON object"}
	kinds      = []kind{
		{
			name: "identify", short: "Identify a user", objects: []member{traits}, oneOf: userFlags,
			example: `collector send identify --user-id u1 --traits '{"plan":"Pro"}'`,
		},
		{
			name: "track", short: "Record an event", objects: []member{properties}, oneOf: userFlags, required: []string{"event"},
			texts:   []member{{"event", "event", "the name of the event"}},
			example: `collector send track --event 'Signed Up' --user-id u1 --properties '{"plan":"Pro"}'`,
		},
		{
			name: "page", short: "Record a page view", objects: []member{properties}, oneOf: userFlags,
			texts:   []member{{"name", "name", "the name of the page"}, {"category", "category", "the category of the page"}},
			example: `collector send page --name Pricing --user-id u1 --properties '{"path":"/pricing"}'`,
		},
		{
			name: "screen", short: "Record a screen view", objects: []member{properties}, oneOf: userFlags,
			texts:   []member{{"name", "name", "the name of the screen"}, {"category", "category", "the category of the screen"}},
			example: `collector send screen --name Home --anonymous-id a1`,
		},
		{
			name: "group", short: "Add a user to a group", objects: []member{traits}, oneOf: userFlags, required: []string{"group-id"},
			texts:   []member{{"groupId", "group-id", "the ID of the group: a company, an account, a team"}},
			example: `collector send group --group-id acme --user-id u1 --traits '{"employees":120}'`,
		},
		{
			name: "alias", short: "Link two IDs of a user", required: []string{"user-id", "previous-id"},
			texts:   []member{{"previousId", "previous-id", "the previous ID of the user"}},
			example: `collector send alias --user-id u1 --previous-id a1`,
		},
	}
	everyText = []member{
		{"userId", "user-id", "the ID of the user in your database"},
		{"anonymousId", "anonymous-id", "an ID for an anonymous user"},
		{"messageId", "message-id", "the ID of the call (default: a new one)"},
		{"timestamp", "timestamp", "the time of the event, in ISO 8601 (default: now)"},
	}
	everyObject = []member{
		{"context", "context", "the context, as a JSON object"},
		{"integrations", "integrations", `the destinations to include, as a JSON object: {"All":false,"Webhooks":true}`},
	}
)

func newSend() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Send a call to test a collector and its destinations",
		Long: `Send one call and print the response. With --wait, wait for all destinations and print
each result; the command fails if a delivery failed.

JSON objects can also be read from a file: --properties @properties.json`,
		Example: "  " + kinds[1].example + "\n  " + kinds[1].example + " --wait 10s",
	}
	for _, k := range kinds {
		cmd.AddCommand(newSendKind(k))
	}
	return group(cmd)
}

func newSendKind(k kind) *cobra.Command {
	f := sendFlags{texts: map[string]*string{}, objects: map[string]*string{}}
	cmd := &cobra.Command{
		Use:     k.name,
		Short:   k.short,
		Example: "  " + k.example,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := k.require(cmd); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.wait+requestTimeout)
			defer cancel()
			cmd.SetContext(ctx)
			return f.send(cmd, k.name)
		},
	}
	flags := cmd.Flags()
	for _, m := range append(everyText, k.texts...) {
		f.texts[m.name] = flags.String(m.flag, "", m.help)
		if m.flag == "event" {
			_ = cmd.RegisterFlagCompletionFunc(m.flag, f.eventNames())
		}
	}
	for _, m := range append(everyObject, k.objects...) {
		f.objects[m.name] = flags.String(m.flag, "", m.help)
	}
	flags.StringVar(&f.writeKey, "write-key", "", "the write key of the source (default $COLLECTOR_WRITE_KEY, or \"dev\", which works with collector dev)")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for the destinations and their results")
	return f.addTo(cmd)
}

// require checks that the required flags are set.
func (k kind) require(cmd *cobra.Command) error {
	for _, name := range k.required {
		if err := requireOne(cmd, name); err != nil {
			return err
		}
	}
	if len(k.oneOf) == 0 {
		return nil
	}
	return requireOne(cmd, k.oneOf...)
}

// call returns the call.
func (f *sendFlags) call(kind string) (map[string]any, error) {
	c := map[string]any{"type": kind, "messageId": "cli-" + strings.ToLower(rand.Text()), "timestamp": time.Now().UTC()}
	for name, value := range f.texts {
		if *value != "" {
			c[name] = *value
		}
	}
	for name, value := range f.objects {
		if *value == "" {
			continue
		}
		object, err := readObject(*value)
		if err != nil {
			return nil, usagef("--%s: %w", name, err)
		}
		c[name] = object
	}
	return c, nil
}

// maxObject is the maximum size of a JSON object in a file, in bytes. It exceeds the maximum
// size of a call.
const maxObject = 1 << 20

// readObject parses a JSON object, or reads one from @file, without changing its numbers.
func readObject(s string) (json.RawMessage, error) {
	text := []byte(s)
	if path, ok := strings.CutPrefix(s, "@"); ok {
		var err error
		if text, err = readUpTo(path, maxObject); err != nil {
			return nil, err
		}
	}
	text = bytes.TrimSpace(text)
	if !json.Valid(text) || text[0] != '{' {
		return nil, fmt.Errorf(`%.60q is not a JSON object: use one such as '{"plan":"Pro"}'`, text)
	}
	return text, nil
}

func (f *sendFlags) send(cmd *cobra.Command, kind string) error {
	c, err := f.call(kind)
	if err != nil {
		return err
	}
	if err := f.sendCall(cmd.Context(), f.writeKey, c); err != nil {
		return err
	}
	id := c["messageId"].(string)
	if f.wait > 0 {
		return f.showResult(cmd, id)
	}
	return f.output.write(cmd, map[string]any{"messageId": id}, "", func(out io.Writer) error {
		_, err := fmt.Fprintf(out, "Accepted %s call, messageId %s\n", kind, id)
		return err
	})
}

// sendCall checks a call and sends it. writeKey may be empty.
func (c *client) sendCall(ctx context.Context, writeKey string, call any) error {
	base, err := c.base()
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"batch": []any{call}, "sentAt": time.Now().UTC()})
	if err != nil {
		return err
	}
	if err := checkCall(ctx, body); err != nil {
		return err
	}
	key, err := usedKey(writeKey)
	if err != nil {
		return err
	}
	req, err := trackingRequest(ctx, base, key, body)
	if err != nil {
		return err
	}
	status, data, err := c.exchange(req)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the collector refused the call: %w", apiErrorOfTracking(status, data))
	}
	return err
}

// trackingRequest returns a request that sends a batch.
func trackingRequest(ctx context.Context, base, writeKey string, batch []byte) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/batch", bytes.NewReader(batch))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(writeKey, "")
	return req, nil
}

// A bufferedResponse is an http.ResponseWriter that stores the response.
type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *bufferedResponse) Header() http.Header         { return a.header }
func (a *bufferedResponse) WriteHeader(status int)      { a.status = status }
func (a *bufferedResponse) Write(b []byte) (int, error) { return a.body.Write(b) }

// checkCall validates a batch with one call. It uses a strict collector in this process,
// because the remote collector reports invalid calls only if it is strict.
func checkCall(ctx context.Context, batch []byte) error {
	strict, err := engine.New(engine.Config{Strict: true, AnyWriteKey: true})
	if err != nil {
		return err
	}
	defer func() { _ = strict.Close() }() // Close cannot fail, because nothing is stored
	req, err := trackingRequest(ctx, "", "any", batch)
	if err != nil {
		return err
	}
	res := bufferedResponse{header: http.Header{}, status: http.StatusOK}
	strict.ServeHTTP(&res, req)
	if res.status == http.StatusOK {
		return nil
	}
	var answer struct {
		Calls []struct {
			Message string `json:"message"`
		} `json:"calls"`
	}
	if json.Unmarshal(res.body.Bytes(), &answer) != nil || len(answer.Calls) == 0 {
		return fmt.Errorf("invalid call: %w", apiErrorOfTracking(res.status, res.body.Bytes()))
	}
	return fmt.Errorf("invalid call: %s", answer.Calls[0].Message)
}

// usedKey returns the write key to use. The flag may be empty; the default is "dev".
func usedKey(flag string) (string, error) {
	key, from := setting("--write-key", flag, "COLLECTOR_WRITE_KEY")
	if p := settings.CheckKey(from, key); p != nil {
		return "", usageError{p}
	}
	return cmp.Or(key, "dev"), nil
}

// apiErrorOfTracking returns the error in a response of the tracking API.
func apiErrorOfTracking(status int, data []byte) error {
	var said apiError
	switch {
	case json.Unmarshal(data, &said) != nil || said.Message == "":
		return answered(status, data)
	case said.Code == tracking.CodeUnknownWriteKey:
		return fmt.Errorf("%s: set --write-key or COLLECTOR_WRITE_KEY to the write key of a source", said.Message)
	}
	return errors.New(said.Message)
}

// showResult waits until no delivery of a call is pending and prints the results.
func (f *sendFlags) showResult(cmd *cobra.Command, id string) error {
	sent, decided, err := f.delivered(cmd.Context(), id, f.wait)
	if err != nil {
		return err
	}
	if err := f.showCall(cmd, id); err != nil {
		return err
	}
	if !decided {
		err = fmt.Errorf("the call is still pending after %v", f.wait)
	}
	return errors.Join(sent.failed(), err)
}

// delivered waits until no delivery of a call is pending. decided is false if this takes longer than
// the limit.
func (c *client) delivered(ctx context.Context, id string, limit time.Duration) (sent call, decided bool, err error) {
	list, err := c.destinations(ctx)
	if err != nil {
		return sent, false, err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = poll(waiting, func() (bool, error) {
		found, err := c.find(ctx, id)
		if len(found) == 0 {
			return false, err
		}
		sent = found[0]
		return sent.decided(list.read.Destinations), err
	})
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return sent, false, nil
	}
	return sent, err == nil, err
}

// failed returns an error for the failed deliveries of a call, or nil.
func (c *call) failed() error {
	var errs []error
	for _, d := range c.Destinations {
		if d.State == "failed" {
			errs = append(errs, fmt.Errorf("delivery to %s failed: %s", plain(d.Destination), plain(d.Reason)))
		}
	}
	return errors.Join(errs...)
}

// decided reports whether the call has a final state at every destination of its source.
func (c *call) decided(all []destination) bool {
	decided := map[string]bool{}
	for _, d := range c.Destinations {
		decided[d.Destination] = d.State != "pending"
	}
	return !slices.ContainsFunc(all, func(d destination) bool {
		return (len(d.Sources) == 0 || slices.Contains(d.Sources, c.Source)) && !decided[d.Name]
	})
}
