package inspector

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/rows"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// outcomesShown is how many notifications the page of a deletion request shows.
const outcomesShown = 100

// A deletionsPage is the deletion requests, and the form that makes one.
type deletionsPage struct {
	Requests []users.Deletion
	Sources  []string
	Form     deletionForm
}

// A deletionForm is what was typed to make a request.
type deletionForm struct {
	ID, Source, Users string
	NewID             string // the ID of a request without ID: a form submitted twice is one request
	Problem           string
}

func (in *Inspector) showDeletions(r *http.Request) (page.Answer, error) {
	return in.showDeletionForm(r, http.StatusOK, deletionForm{NewID: strings.ToLower(rand.Text())})
}

func (in *Inspector) showDeletionForm(r *http.Request, status int, form deletionForm) (page.Answer, error) {
	all, err := in.c.Users().Deletions(r.Context())
	p := deletionsPage{Requests: all, Sources: in.sourceNames(), Form: form}
	return page.Answer{Template: "deletions", Status: status, Page: page.Page{Title: "Deletions", Nav: "deletions", Body: p}}.OrPart(r, "lines"), err
}

// makeDeletion takes the users that were typed, one a line.
func (in *Inspector) makeDeletion(r *http.Request) (page.Answer, error) {
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
	return page.SendTo(rows.Filter{}.Link("/deletion", "id", d.ID), "Request accepted. Notifications are being sent.")
}

// A deletionPage is one request, and some of its notifications.
type deletionPage struct {
	users.Deletion
	State    string // of the notifications that are shown; empty: any
	States   []string
	Outcomes []users.DeletionOutcome
	Offset   int // of the first that is shown
	More     bool
}

// Link returns the address of the page with other notifications.
func (p deletionPage) Link(state string, offset int) string {
	q := url.Values{"id": {p.ID}}
	if state != "" {
		q.Set("state", state)
	}
	if offset > 0 {
		q.Set("offset", strconv.Itoa(offset))
	}
	return "/deletion?" + q.Encode()
}

// Earlier and Later are the offsets of the pages beside this one.
func (p deletionPage) Earlier() int { return max(0, p.Offset-outcomesShown) }

// Later is the offset of the next page.
func (p deletionPage) Later() int { return p.Offset + len(p.Outcomes) }

func (in *Inspector) showDeletion(r *http.Request) (page.Answer, error) {
	q := r.URL.Query()
	d, err := in.c.Users().Deletion(r.Context(), q.Get("id"))
	if err != nil {
		return page.Answer{}, err
	}
	p := deletionPage{Deletion: d, State: q.Get("state"), States: []string{"pending", "delivered", "failed", "filtered"}}
	var filter users.OutcomeFilter
	var wanted tracking.State
	if wanted.UnmarshalText([]byte(p.State)) == nil {
		filter.States = []tracking.State{wanted}
	} else {
		p.State = ""
	}
	p.Offset, _ = strconv.Atoi(q.Get("offset")) // what is no number is the first page
	p.Outcomes, p.More, err = in.c.Users().DeletionOutcomes(r.Context(), d.ID, filter, p.Offset, outcomesShown)
	if err != nil {
		return page.Answer{}, err
	}
	return page.Answer{Template: "deletion", Page: page.Page{Title: "Deletion request", Nav: "deletions", Body: p}}.OrPart(r, "lines"), nil
}
