package admin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/export"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A sourceView is a source as the API returns it.
type sourceView struct {
	Name           string             `json:"name"`
	WriteKey       string             `json:"writeKey"` // redacted, except in the response to the request that creates the source
	CallsPerSecond int                `json:"callsPerSecond,omitempty"`
	Redact         tracking.Redaction `json:"redact"`
	ReadOnly       bool               `json:"readOnly"` // defined in the configuration file
}

// A sourceInput contains changes to a source. Fields that are nil do not change.
type sourceInput struct {
	Name           *string             `json:"name"`
	WriteKey       *string             `json:"writeKey"`
	CallsPerSecond *int                `json:"callsPerSecond"`
	Redact         *tracking.Redaction `json:"redact"`
}

func (a *admin) viewSource(s tracking.Source) sourceView {
	return sourceView{
		Name: s.Name, WriteKey: text.Redact(s.WriteKey), CallsPerSecond: s.CallsPerSecond, Redact: s.Redact,
		ReadOnly: a.c.Configured().Source(s.Name) != nil,
	}
}

func (a *admin) listSources(*http.Request) (any, error) {
	views := []sourceView{}
	for _, s := range a.c.Settings().Sources {
		views = append(views, a.viewSource(s))
	}
	return map[string]any{"sources": views}, nil
}

func (a *admin) getSource(r *http.Request) (any, error) {
	name := r.PathValue("source")
	s := a.c.Settings().Source(name)
	if s == nil {
		return nil, state.Unknown("source", name)
	}
	return a.viewSource(*s), nil
}

// addSource creates a source. Only the response to this request contains the write key.
func (a *admin) addSource(r *http.Request) (any, error) {
	var in sourceInput
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	s := tracking.Source{WriteKey: rand.Text()}
	if err := errors.Join(in.apply(&s), settings.CheckName(s.Name)); err != nil {
		return nil, err
	}
	if err := a.c.AddSource(r.Context(), s); err != nil {
		return nil, err
	}
	view := a.viewSource(s)
	view.WriteKey = s.WriteKey
	return created(view), nil
}

func (a *admin) changeSource(r *http.Request) (any, error) {
	var in sourceInput
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	name := r.PathValue("source")
	if in.Name != nil && *in.Name != name {
		return nil, access.Errorf(http.StatusUnprocessableEntity, "invalid", "the name of a source cannot be changed; create another source")
	}
	var changed tracking.Source
	err := a.c.ChangeSource(r.Context(), name, func(s *tracking.Source) error {
		err := in.apply(s)
		changed = *s
		return err
	})
	if err != nil {
		return nil, err
	}
	return a.viewSource(changed), nil
}

func (in *sourceInput) apply(s *tracking.Source) error {
	set(&s.Name, in.Name)
	if in.WriteKey != nil {
		if err := settings.CheckKey("writeKey", *in.WriteKey); err != nil {
			return err
		}
		s.WriteKey = *in.WriteKey
	}
	set(&s.CallsPerSecond, in.CallsPerSecond)
	set(&s.Redact, in.Redact)
	switch {
	case s.WriteKey == "":
		return &webhook.FieldError{Field: "writeKey", Problem: "is empty", Hint: "set a write key, or omit it to generate one"}
	case s.CallsPerSecond < 0:
		return &webhook.FieldError{Field: "callsPerSecond", Problem: fmt.Sprintf("is %d", s.CallsPerSecond), Hint: "use a number above 0, or 0 for the default"}
	}
	return nil
}

func (a *admin) removeSource(r *http.Request) (any, error) {
	return nil, a.c.RemoveSource(r.Context(), r.PathValue("source"))
}

// A destinationView is a destination as the API returns it.
type destinationView struct {
	tracking.Destination // the settings without secrets; the following fields replace some of them

	Sources     []string                 `json:"sources"` // empty for all sources
	Enabled     bool                     `json:"enabled"`
	Signed      bool                     `json:"signed"`   // whether there is a shared secret
	Rotating    bool                     `json:"rotating"` // whether there is a previous secret
	GiveUpAfter string                   `json:"giveUpAfter,omitempty"`
	Types       tracking.Filter          `json:"types"`
	Events      tracking.Filter          `json:"events"`
	Redact      tracking.Redaction       `json:"redact"`
	ReadOnly    bool                     `json:"readOnly"` // defined in the configuration file
	Status      engine.DestinationStatus `json:"status"`
	Ledger      *tracking.Ledger         `json:"ledger,omitempty"`
}

// A destinationInput contains changes to a destination.
type destinationInput struct {
	tracking.Destination // the new values of the settings in changed

	Enabled     *bool  `json:"enabled"`
	Rotate      bool   `json:"rotate"` // the current secret becomes the previous secret
	GiveUpAfter string `json:"giveUpAfter"`

	changed map[string]bool // names of the settings in the request that are not null
}

// UnmarshalJSON implements json.Unmarshaler. Settings that are missing or null do not change.
func (in *destinationInput) UnmarshalJSON(data []byte) error {
	type plain destinationInput // without this method
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var values map[string]json.RawMessage
	if err := errors.Join(decoder.Decode((*plain)(in)), json.Unmarshal(data, &values)); err != nil {
		return err
	}
	in.changed = map[string]bool{}
	members := jsonMembers(reflect.TypeFor[destinationInput]())
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(members, name) { // the collector sets it
			return fmt.Errorf("json: unknown field %q", name)
		}
		in.changed[name] = string(values[name]) != "null"
	}
	return nil
}

func (a *admin) viewDestinations(ctx context.Context, pick func(tracking.Destination) bool) ([]destinationView, error) {
	overviews, err := a.c.Overviews(ctx, pick)
	views := []destinationView{}
	for _, d := range overviews {
		view := destinationView{
			Destination: d.Destination, Sources: append([]string{}, d.Sources...), Enabled: !d.Disabled,
			Signed: d.SharedSecret != "", Rotating: d.PreviousSecret != "", Types: d.Types, Events: d.Events, Redact: d.Redact,
			ReadOnly: d.ReadOnly, Status: d.Status, Ledger: d.Ledger,
		}
		if d.GiveUpAfter > 0 {
			view.GiveUpAfter = d.GiveUpAfter.String()
		}
		shown := &view.Destination
		shown.Webhooks = append([]webhook.Endpoint{}, engine.HideHeaders(d.Webhooks)...)
		if shown.Type = cmp.Or(d.Type, webhook.TypeWebhooks); shown.Type == webhook.TypeWebhooks {
			shown.Signature, shown.AliasFields, shown.TraceContext = cmp.Or(d.Signature, webhook.SignatureService), cmp.Or(d.AliasFields, webhook.AliasSpaced), cmp.Or(d.TraceContext, webhook.TraceParent)
		}
		shown.Order = cmp.Or(d.Order, tracking.OrderNone)
		shown.SharedSecret, shown.PreviousSecret, shown.WriteKey = "", "", ""
		shown.Disabled, shown.Paused, shown.GoneSince = false, false, time.Time{} // see enabled and status
		views = append(views, view)
	}
	return views, err
}

func (a *admin) listDestinations(r *http.Request) (any, error) {
	views, err := a.viewDestinations(r.Context(), func(tracking.Destination) bool { return true })
	return map[string]any{"destinations": views}, err
}

func (a *admin) getDestination(r *http.Request) (any, error) {
	return a.viewDestination(r.Context(), r.PathValue("destination"))
}

func (a *admin) viewDestination(ctx context.Context, name string) (any, error) {
	views, err := a.viewDestinations(ctx, settings.DestinationNamed(name))
	switch {
	case err != nil:
		return nil, err
	case len(views) == 0:
		return nil, state.Unknown("destination", name)
	}
	return views[0], nil
}

// readDestination reads the settings of a new destination.
func readDestination(r *http.Request) (d tracking.Destination, err error) {
	var in destinationInput
	if err = readJSON(r, &in); err == nil {
		err = in.apply(&d)
	}
	return d, err
}

func (a *admin) addDestination(r *http.Request) (any, error) {
	d, err := readDestination(r)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(settings.CheckName(d.Name), a.c.CheckDestination(&tracking.Destination{}, &d)); err != nil {
		return nil, err
	}
	if err := a.c.AddDestination(r.Context(), d); err != nil {
		return nil, err
	}
	view, err := a.viewDestination(r.Context(), d.Name)
	return created(view), err
}

// previewDestination returns how many recent calls would be sent to a destination.
func (a *admin) previewDestination(r *http.Request) (any, error) {
	d, err := readDestination(r)
	if err != nil {
		return nil, err
	}
	// The request may omit these settings.
	if d.Type == webhook.TypeRelay {
		d.WriteKey = cmp.Or(d.WriteKey, "placeholder")
	} else if len(d.Webhooks) == 0 {
		d.Webhooks = []webhook.Endpoint{{URL: "https://example.com"}}
	}
	if err := a.c.CheckDestination(&tracking.Destination{}, &d); err != nil {
		return nil, err
	}
	return a.c.Preview(d), nil
}

func (a *admin) changeDestination(r *http.Request) (any, error) {
	var in destinationInput
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	name := r.PathValue("destination")
	if in.changed["name"] && in.Name != name {
		return nil, access.Errorf(http.StatusUnprocessableEntity, "invalid", "the name of a destination cannot be changed; create another destination")
	}
	err := a.c.ChangeDestination(r.Context(), name, func(d *tracking.Destination) error {
		old := *d
		if err := in.apply(d); err != nil {
			return err
		}
		return a.c.CheckDestination(&old, d)
	})
	if err != nil {
		return nil, err
	}
	return a.viewDestination(r.Context(), name)
}

// set sets a field to *value unless value is nil.
func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

// apply changes the settings of d.
func (in *destinationInput) apply(d *tracking.Destination) error {
	if in.GiveUpAfter != "" {
		var err error
		if in.Destination.GiveUpAfter, err = time.ParseDuration(in.GiveUpAfter); err != nil {
			return &webhook.FieldError{Field: "giveUpAfter", Problem: fmt.Sprintf("is %.40q", in.GiveUpAfter), Hint: "use a duration such as 10m"}
		}
	}
	if err := in.rotate(d); err != nil {
		return err
	}
	old := *d
	from := maps.Collect(settings.Fields(reflect.ValueOf(&in.Destination).Elem()))
	for name, value := range settings.Fields(reflect.ValueOf(d).Elem()) {
		if in.changed[name] {
			value.Set(from[name])
		}
	}
	if in.Enabled != nil {
		d.Disabled = !*in.Enabled
	}
	in.clearRelated(d)
	var err error
	if d.Type == webhook.TypeRelay && !in.changed["writeKey"] {
		err = engine.KeepWriteKey(d, &old)
	}
	if in.changed["webhooks"] {
		d.Webhooks = engine.RestoreHeaders(d.Webhooks, old.Webhooks)
		err = errors.Join(err, engine.StillHidden(d.Webhooks))
	}
	return err
}

// rotate makes the shared secret the previous secret if the request asks for it.
func (in *destinationInput) rotate(d *tracking.Destination) error {
	switch {
	case !in.Rotate:
		return nil
	case d.SharedSecret == "":
		return &webhook.FieldError{Field: "rotate", Problem: "needs an existing shared secret", Hint: "omit rotate"}
	case in.SharedSecret == "" || in.SharedSecret == d.SharedSecret || in.changed["previousSecret"]:
		return &webhook.FieldError{Field: "rotate", Problem: "needs a new sharedSecret and no previousSecret", Hint: "send the new secret as sharedSecret"}
	}
	d.PreviousSecret = d.SharedSecret
	return nil
}

// clearRelated clears settings that require a setting that the request removes.
func (in *destinationInput) clearRelated(d *tracking.Destination) {
	if in.changed["order"] && !d.IsOrdered() {
		if !in.changed["giveUpAfter"] {
			d.GiveUpAfter = 0
		}
		if !in.changed["onFailure"] {
			d.OnFailure = ""
		}
	}
	if in.changed["sharedSecret"] && d.SharedSecret == "" && !in.changed["previousSecret"] {
		d.PreviousSecret = ""
	}
}

func (a *admin) testDestination(r *http.Request) (any, error) {
	var in struct {
		Type string `json:"type"`
	}
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	in.Type = cmp.Or(in.Type, "track")
	if !slices.Contains(fields.StoredTypes, in.Type) {
		return nil, &webhook.FieldError{Field: "type", Problem: fmt.Sprintf("is %.40q", in.Type), Hint: "use one of " + strings.Join(fields.StoredTypes, ", ")}
	}
	name := r.PathValue("destination")
	d := a.c.Settings().Destination(name)
	if d == nil {
		return nil, state.Unknown("destination", name)
	}
	attempts, err := a.c.SendTest(r.Context(), *d, in.Type)
	if err != nil {
		return nil, access.Errorf(http.StatusConflict, "no_payload", "%v", err)
	}
	return export.NewAttempts(attempts), nil
}

// removeDestination deletes a destination. It discards pending calls only if requested.
func (a *admin) removeDestination(r *http.Request) (any, error) {
	name, discard := r.PathValue("destination"), false
	q := newQuery(r)
	q.bool("discard", &discard)
	if err := q.done(); err != nil {
		return nil, err
	}
	err := a.c.RemoveDestination(r.Context(), name, discard)
	var pending *engine.PendingCallsError
	if errors.As(err, &pending) {
		return nil, access.Errorf(http.StatusConflict, "has_pending", "destination %s has %d pending calls; wait for them, or discard them with ?discard=true", text.Quote(text.MaxRepeated, pending.Destination), pending.Calls)
	}
	return nil, err
}

func (a *admin) pauseDestination(r *http.Request) (any, error) { return a.act(r, a.c.Pause) }

func (a *admin) resumeDestination(r *http.Request) (any, error) { return a.act(r, a.c.Resume) }

// act calls do for a destination and returns the changed destination.
func (a *admin) act(r *http.Request, do func(ctx context.Context, name string) error) (any, error) {
	name := r.PathValue("destination")
	if err := do(r.Context(), name); err != nil {
		return nil, err
	}
	return a.viewDestination(r.Context(), name)
}
