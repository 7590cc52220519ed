package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/textfile"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/copyas"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// sendFlags are the values of the flags of a send command.
type sendFlags struct {
	client
	writeKey string
	wait     time.Duration
	values   map[fields.Field]*string
}

// commonFields contains the fields with a flag that all types of calls have.
var commonFields = []fields.Field{fields.UserID, fields.AnonymousID, fields.MessageID, fields.Timestamp, fields.Context, fields.Integrations}

// flagOf returns the name of a field's flag, such as user-id.
func flagOf(f fields.Field) string {
	return strings.ReplaceAll(fields.Names[f], "Id", "-id")
}

func newSend() *cobra.Command {
	example := "  collector send track " + fields.TypeNamed("track").Example
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Send a call to test a collector and its destinations",
		Long: `Send one call and print the response. With --wait, wait for all destinations and print
each result; the command fails if a delivery failed.

JSON objects can also be read from a file: --properties @properties.json`,
		Example: example + "\n" + example + " --wait 10s",
	}
	for i := range fields.CallTypes {
		cmd.AddCommand(newSendType(&fields.CallTypes[i]))
	}
	return group(cmd)
}

func newSendType(typ *fields.CallType) *cobra.Command {
	f := sendFlags{values: map[fields.Field]*string{}}
	cmd := &cobra.Command{
		Use:     typ.Name,
		Short:   typ.About,
		Example: "  collector send " + typ.Name + " " + typ.Example,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := requireFields(cmd, typ); err != nil {
				return err
			}
			return f.send(cmd, typ.Name)
		},
	}
	flags := cmd.Flags()
	for _, m := range slices.Concat(commonFields, typ.Own) {
		f.values[m] = flags.String(flagOf(m), "", fields.About[m])
		if m == fields.Event {
			_ = cmd.RegisterFlagCompletionFunc(flagOf(m), f.eventNames())
		}
	}
	flags.StringVar(&f.writeKey, "write-key", "", "the write key of the source (default $COLLECTOR_WRITE_KEY, or \"dev\", which works with collector dev)")
	flags.DurationVar(&f.wait, "wait", 0, "how long to wait for the destinations and their results")
	return f.addTo(cmd)
}

// requireFields checks that the flags of required fields are set.
func requireFields(cmd *cobra.Command, typ *fields.CallType) error {
	if typ.Required != 0 {
		if err := requireOne(cmd, flagOf(typ.Required)); err != nil {
			return err
		}
	}
	if typ.NoUser != "" {
		return requireOne(cmd, flagOf(fields.UserID))
	}
	return requireOne(cmd, flagOf(fields.UserID), flagOf(fields.AnonymousID))
}

// call returns the call that the flags describe.
func (f *sendFlags) call(typ string) (map[string]any, error) {
	c := map[string]any{"type": typ, "messageId": "cli-" + strings.ToLower(rand.Text()), "timestamp": time.Now().UTC()}
	for m, value := range f.values {
		switch {
		case *value == "":
		case m.IsObject():
			object, err := readObject(*value)
			if err != nil {
				return nil, usagef("--%s: %w", flagOf(m), err)
			}
			c[fields.Names[m]] = object
		default:
			c[fields.Names[m]] = *value
		}
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
		if text, err = config.ReadFile(path, maxObject); err != nil {
			return nil, err
		}
	}
	text, err := textfile.Decode(text)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimSpace(text)
	if !json.Valid(text) || text[0] != '{' {
		return nil, fmt.Errorf(`%.60q is not a JSON object: use one such as '{"plan":"Pro"}'`, text)
	}
	return text, nil
}

func (f *sendFlags) send(cmd *cobra.Command, typ string) error {
	c, err := f.call(typ)
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
	return f.output.write(cmd, map[string]any{"messageId": id}, "", func(out *printer) { fmt.Fprintf(out, "Accepted %s call, messageId %s\n", typ, id) })
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
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := trackingRequest(ctx, base, key, body)
	if err != nil {
		return err
	}
	status, data, err := c.exchange(req)
	if err != nil {
		return err
	}
	var failure apiError
	switch bad := json.Unmarshal(data, &failure); {
	case status != http.StatusOK:
		return fmt.Errorf("the collector refused the call: %w", apiErrorOfTracking(status, data))
	case bad != nil || failure.Success == nil || !*failure.Success:
		return notCollectorError(status, data)
	}
	return nil
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
	var rejected struct {
		Calls []struct {
			Message string `json:"message"`
		} `json:"calls"`
	}
	if json.Unmarshal(res.body.Bytes(), &rejected) != nil || len(rejected.Calls) == 0 {
		return usagef("invalid call: %w", apiErrorOfTracking(res.status, res.body.Bytes()))
	}
	return usagef("invalid call: %s", rejected.Calls[0].Message)
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
	var failure apiError
	switch {
	case json.Unmarshal(data, &failure) != nil || failure.Message == "":
		return notCollectorError(status, data)
	case failure.Code == tracking.CodeUnknownWriteKey:
		return errors.New("no source has this write key: set --write-key or COLLECTOR_WRITE_KEY to the write key of a source")
	}
	return errors.New(failure.Message)
}

// showResult waits until no delivery of a call is pending and prints the results.
func (f *sendFlags) showResult(cmd *cobra.Command, id string) error {
	sent, decided, err := f.delivered(cmd.Context(), id, f.wait)
	if err != nil {
		return err
	}
	if err := f.showCalls(cmd, byID(id)); err != nil {
		return err
	}
	if decided {
		return sent.failed()
	}
	list, err := f.destinations(cmd.Context())
	if err != nil {
		return err
	}
	pending := fmt.Sprintf("the call is still pending after %v", f.wait)
	for _, d := range sent.pendingAt(list.read.Destinations) {
		pending += fmt.Sprintf("; %s is %s", d.Name, d.Status.State)
		if d.Status.State == engine.DestinationPaused {
			pending += ": resume it with collector resume " + copyas.Shell(d.Name)
		}
	}
	return errors.Join(sent.failed(), errors.New(pending))
}

// delivered waits until no delivery of a call is pending. decided is false if this takes longer than
// the limit.
func (c *client) delivered(ctx context.Context, id string, limit time.Duration) (sent call, decided bool, err error) {
	var list response[destinationList]
	decided, err = pollFor(ctx, limit, "delivery of the call "+id, func(ctx context.Context) (_ bool, err error) {
		if list.raw == nil {
			if list, err = c.destinations(ctx); err != nil {
				return false, err
			}
		}
		found, err := c.find(ctx, byID(id))
		if len(found) == 0 {
			return false, err
		}
		sent = found[0]
		return len(sent.pendingAt(list.read.Destinations)) == 0, err
	})
	return sent, decided, err
}

// failed returns an error with the names of the destinations that the call could not be delivered to, or
// nil. The output contains the reasons.
func (c *call) failed() error {
	var names []string
	for _, d := range c.Destinations {
		if d.State == "failed" {
			names = append(names, d.Destination)
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("delivery to %s failed", strings.Join(names, ", "))
}

// pendingAt returns the destinations that receive calls of this source and have no final state for the call.
// It uses the list of all destinations, because in a cluster the call may not contain each of them yet.
func (c *call) pendingAt(all []destination) (pending []destination) {
	for _, d := range all {
		receives := len(d.Sources) == 0 || slices.Contains(d.Sources, c.Source)
		isFinal := func(s callState) bool { return s.Destination == d.Name && s.State != "pending" }
		if receives && !slices.ContainsFunc(c.Destinations, isFinal) {
			pending = append(pending, d)
		}
	}
	return pending
}
