package inspector

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// outcomesShown is the number of notifications per page.
const outcomesShown = 100

// A deletionsPage lists deletion requests and has the request form.
type deletionsPage struct {
	Requests []users.Deletion
	Sources  []string
	Form     deletionForm
}

// A deletionForm contains the values of the request form.
type deletionForm struct {
	ID, Source, Users string
	NewID             string // request ID if the user enters none; makes a repeated submit idempotent
	Problem           string
}

func (in *Inspector) showDeletions(r *http.Request) (page.Response, error) {
	return in.showDeletionForm(r, http.StatusOK, deletionForm{NewID: strings.ToLower(rand.Text())})
}

func (in *Inspector) showDeletionForm(r *http.Request, status int, form deletionForm) (page.Response, error) {
	all, err := in.c.Users().Deletions(r.Context())
	p := deletionsPage{Requests: all, Sources: in.sourceNames(), Form: form}
	return page.Response{Template: "deletions", Status: status, Page: page.Page{Title: "Deletions", Nav: "deletions", Body: p}}.OrPart(r, "lines"), err
}

// makeDeletion handles the request form, which contains one user ID per line.
func (in *Inspector) makeDeletion(r *http.Request) (page.Response, error) {
	form := deletionForm{ID: strings.TrimSpace(r.PostForm.Get("id")), Source: r.PostForm.Get("source"), Users: r.PostForm.Get("users"), NewID: r.PostForm.Get("newID")}
	request := users.DeletionRequest{ID: cmp.Or(form.ID, form.NewID), Source: form.Source}
	for line := range strings.Lines(form.Users) {
		if id := strings.TrimRight(line, "\r\n"); id != "" {
			request.UserIDs = append(request.UserIDs, id)
		}
	}
	d, err := in.c.Users().DeleteUsers(r.Context(), request)
	if err != nil {
		form.Problem = page.Sentence(access.ErrorOf(err).Message)
		return in.showDeletionForm(r, http.StatusUnprocessableEntity, form)
	}
	return page.SendTo(page.Link("/deletion", "id", d.ID), "Request accepted. Notifications are being sent.")
}

// A deletionPage shows a deletion request and a page of its notifications.
type deletionPage struct {
	users.Deletion
	State    string // selects the notifications to show; empty for all
	States   []string
	Outcomes []users.DeletionOutcome
	Offset   int // index of the first notification on the page
	More     bool
}

// Link returns the URL of another page or filter.
func (p deletionPage) Link(state string, offset int) string {
	from := ""
	if offset > 0 {
		from = strconv.Itoa(offset)
	}
	return page.Link("/deletion", "id", p.ID, "state", state, "offset", from)
}

// Earlier returns the offset of the previous page.
func (p deletionPage) Earlier() int { return max(0, p.Offset-outcomesShown) }

// Later returns the offset of the next page.
func (p deletionPage) Later() int { return p.Offset + len(p.Outcomes) }

func (in *Inspector) showDeletion(r *http.Request) (page.Response, error) {
	q := r.URL.Query()
	d, err := in.c.Users().Deletion(r.Context(), q.Get("id"))
	if err != nil {
		return page.Response{}, err
	}
	p := deletionPage{Deletion: d, State: q.Get("state"), States: []string{"pending", "delivered", "failed", "filtered"}}
	var filter users.OutcomeFilter
	var wanted tracking.State
	if wanted.UnmarshalText([]byte(p.State)) == nil {
		filter.States = []tracking.State{wanted}
	} else {
		p.State = ""
	}
	p.Offset, _ = strconv.Atoi(q.Get("offset")) // an invalid number selects the first page
	p.Outcomes, p.More, err = in.c.Users().DeletionOutcomes(r.Context(), d.ID, filter, p.Offset, outcomesShown)
	if err != nil {
		return page.Response{}, err
	}
	return page.Response{Template: "deletion", Page: page.Page{Title: "Deletion request", Nav: "deletions", Body: p}}.OrPart(r, "lines"), nil
}
