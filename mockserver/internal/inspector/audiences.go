package inspector

import (
	"context"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// maxTyped limits each typed form field, in bytes. It does not apply to uploaded files.
const maxTyped = 1 << 20

// An audiencesPage lists audiences and computed traits and has the upload form.
type audiencesPage struct {
	Lines        []computationLine
	Form         syncForm
	Sources      []string
	Destinations []string
}

// A computationLine is an audience or a computed trait with its sync status.
type computationLine struct {
	users.Computation
	Queued int         // number of syncs that wait for Last
	Last   *users.Sync // running sync, or the last completed sync
}

// A syncForm contains the values of the upload form.
type syncForm struct {
	Kind                      users.ComputationKind
	Name, Source, Destination string
	List                      string
	Full, AllowEmpty          bool
	Problem                   string
	Counted                   *users.Sync // result of a dry run
}

func (in *Inspector) showAudiences(r *http.Request) (page.Response, error) {
	return in.showSyncForm(r, http.StatusOK, syncForm{Kind: users.KindAudience})
}

func (in *Inspector) showSyncForm(r *http.Request, status int, form syncForm) (page.Response, error) {
	lines, err := in.computationLines(r.Context())
	p := audiencesPage{Lines: lines, Form: form, Sources: in.sourceNames(), Destinations: in.c.Settings().DestinationNames()}
	return page.Response{Template: "audiences", Status: status, Page: page.Page{Title: "Audiences", Nav: "audiences", Body: p}}.OrPart(r, "lines"), err
}

func (in *Inspector) computationLines(ctx context.Context) ([]computationLine, error) {
	all, err := in.c.Users().Computations(ctx)
	var lines []computationLine
	for _, c := range all {
		line := computationLine{Computation: c}
		// c.Syncs lists completed syncs first.
		at := slices.IndexFunc(c.Syncs, func(s users.Sync) bool { return s.State != users.SyncDone })
		if at < 0 {
			at = len(c.Syncs) - 1
		}
		if at >= 0 {
			line.Last, line.Queued = &c.Syncs[at], len(c.Syncs)-1-at
		}
		lines = append(lines, line)
	}
	return lines, err
}

// serveSync handles the upload form: the typed list followed by a file.
func (in *Inspector) serveSync(w http.ResponseWriter, r *http.Request) {
	r.Body = access.NewLongBody(w, r)
	in.pages.Serve(in.takeList)(w, r)
}

func (in *Inspector) takeList(r *http.Request) (page.Response, error) {
	form, list, err := readSyncForm(r)
	var s users.Sync
	dryRun := r.URL.Query().Get("dryRun") == "true"
	if err == nil {
		s, err = in.c.Users().StartSync(r.Context(), users.SyncRequest{
			Kind: form.Kind, Name: form.Name, Source: form.Source, Destination: form.Destination,
			List: list, DryRun: dryRun, Full: form.Full, AllowEmpty: form.AllowEmpty,
		})
	}
	switch {
	case err != nil:
		access.ReadRest(r)
		form.Problem = page.Sentence(access.ErrorOf(err).Message)
		return in.showSyncForm(r, http.StatusUnprocessableEntity, form)
	case dryRun:
		form.Counted = &s
		return in.showSyncForm(r, http.StatusOK, form)
	}
	return page.SendTo("/audiences", "List accepted. Calls are being sent.")
}

// readSyncForm reads the fields before the file. It returns the file as a reader, because a
// list can be too large for memory.
func readSyncForm(r *http.Request) (f syncForm, list io.Reader, err error) {
	f.Kind = users.KindAudience
	parts, err := r.MultipartReader()
	if err != nil {
		return f, nil, access.Errorf(http.StatusBadRequest, "invalid", "the form cannot be read: %v", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return f, strings.NewReader(f.List), nil
		}
		if err != nil {
			return f, nil, err
		}
		if part.FormName() == "file" {
			return f, io.MultiReader(strings.NewReader(f.List+"\n"), part), nil
		}
		if err := f.set(part); err != nil {
			return f, nil, err
		}
	}
}

func (f *syncForm) set(part *multipart.Part) error {
	data, err := io.ReadAll(io.LimitReader(part, maxTyped+1))
	if err != nil {
		return err
	}
	if len(data) > maxTyped {
		return access.Errorf(http.StatusRequestEntityTooLarge, "too_large", "the field %.40s has more than %d bytes; upload a long list as a file", part.FormName(), maxTyped)
	}
	value := string(data)
	switch part.FormName() {
	case "kind":
		if value == string(users.KindTrait) {
			f.Kind = users.KindTrait
		}
	case "name":
		f.Name = strings.TrimSpace(value)
	case "source":
		f.Source = value
	case "destination":
		f.Destination = value
	case "full":
		f.Full = value == "true"
	case "allowEmpty":
		f.AllowEmpty = value == "true"
	case "list":
		f.List = value
	}
	return nil
}

func (in *Inspector) deleteComputation(r *http.Request) (page.Response, error) {
	if err := in.c.Users().DeleteComputation(r.Context(), r.PostForm.Get("id")); err != nil {
		return page.Response{}, err
	}
	return page.SendTo("/audiences", "List deleted.")
}
