package admin

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// A replayInput selects calls of a destination. The zero value selects all failed calls.
type replayInput struct {
	State string   `json:"state"`
	Where []string `json:"where"`
	engine.Selection
}

// A replayView reports the number of replayed or matching calls.
type replayView struct {
	Destination string   `json:"destination"`
	Calls       int      `json:"calls"`
	DryRun      bool     `json:"dryRun"`
	Missing     []string `json:"missing,omitempty"` // selected messageIds without a matching call
}

func readSelection(r *http.Request) (sel engine.Selection, err error) {
	var in replayInput
	if err := readJSON(r, &in); err != nil {
		return sel, err
	}
	sel = in.Selection
	if len(sel.IDs) > 0 {
		sel.Found = map[string]bool{}
	}
	if sel.Where, err = readWhere(in.Where); err != nil {
		return sel, &webhook.FieldError{Field: "where", Problem: "cannot be read", Hint: err.Error()}
	}
	if isReversed(sel.Since, sel.Until) {
		return sel, &webhook.FieldError{Field: "until", Problem: "is before since", Hint: "use a later time"}
	}
	if isReversed(sel.FailedSince, sel.FailedUntil) {
		return sel, &webhook.FieldError{Field: "failedUntil", Problem: "is before failedSince", Hint: "use a later time"}
	}
	for i, typ := range in.Types {
		if !slices.Contains(fields.StoredTypes, typ) {
			return sel, &webhook.FieldError{Field: fmt.Sprintf("types[%d]", i), Problem: fmt.Sprintf("is %.40q", typ), Hint: "use " + strings.Join(fields.StoredTypes, ", ")}
		}
	}
	if in.State != "" {
		if err := sel.State.UnmarshalText([]byte(in.State)); err != nil || sel.State == tracking.StatePending {
			return sel, &webhook.FieldError{Field: "state", Problem: fmt.Sprintf("is %q", in.State), Hint: `use "failed", "delivered" or "filtered"`}
		}
	}
	return sel, nil
}

// replayDestination replays calls and responds when they are queued.
func (a *admin) replayDestination(r *http.Request) (any, error) {
	sel, err := readSelection(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("destination")
	n, err := a.c.Replay(r.Context(), name, sel)
	return replayView{name, n, sel.DryRun, sel.Missing()}, err
}

// startReplay starts a replay in the background.
func (a *admin) startReplay(r *http.Request) (any, error) {
	sel, err := readSelection(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("destination")
	if sel.DryRun {
		return nil, &webhook.FieldError{Field: "dryRun", Problem: "is true", Hint: "use /api/v1/destinations/{destination}/replay to count calls"}
	}
	sel.DryRun = true
	expected, err := a.c.Replay(r.Context(), name, sel)
	if err != nil {
		return nil, err
	}
	id, err := a.c.StartReplay(name, sel, expected)
	if errors.Is(err, engine.ErrReplaying) {
		return nil, access.Errorf(http.StatusConflict, "replaying", "a replay to destination %s is in progress; wait until it has queued its calls", text.Quote(text.MaxRepeated, name))
	}
	if err != nil {
		return nil, err
	}
	run, err := a.c.ReplayRun(id)
	return created(run), err
}

func (a *admin) listReplays(*http.Request) (any, error) {
	return map[string]any{"replays": a.c.ReplayRuns()}, nil
}

func (a *admin) getReplay(r *http.Request) (any, error) { return a.c.ReplayRun(r.PathValue("replay")) }

// maxName limits each of three names that an error message contains, in bytes.
const maxName = text.MaxRepeated / 3

// replayCall replays one call in any state except pending.
func (a *admin) replayCall(r *http.Request) (any, error) {
	var in struct {
		Destination string `json:"destination"`
		DryRun      bool   `json:"dryRun"`
	}
	if err := readJSON(r, &in); err != nil {
		return nil, err
	}
	if in.Destination == "" {
		return nil, &webhook.FieldError{Field: "destination", Problem: "is empty", Hint: "use a name from /api/v1/destinations"}
	}
	source, id := r.PathValue("source"), r.PathValue("messageId")
	n, err := a.c.ReplayCall(r.Context(), in.Destination, source, id, in.DryRun)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: no call %s of source %s to replay to destination %s", state.ErrUnknown, text.Quote(maxName, id), text.Quote(maxName, source), text.Quote(maxName, in.Destination))
	}
	return replayView{Destination: in.Destination, Calls: n, DryRun: in.DryRun}, err
}
