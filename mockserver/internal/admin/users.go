package admin

import (
	"mime"
	"net/http"
	"slices"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
)

// maxDeletionBody bounds the body of a deletion request, in bytes.
const maxDeletionBody = 16 << 20

func (a *admin) addDeletion(r *http.Request) (any, error) {
	var in users.DeletionRequest
	if err := readJSONUpTo(r, &in, maxDeletionBody); err != nil {
		return nil, err
	}
	d, err := a.c.Users().DeleteUsers(r.Context(), in)
	return created{d}, err
}

func (a *admin) listDeletions(r *http.Request) (any, error) {
	all, err := a.c.Users().Deletions(r.Context())
	return map[string]any{"deletions": append([]users.Deletion{}, all...)}, err
}

func (a *admin) getDeletion(r *http.Request) (any, error) {
	return a.c.Users().Deletion(r.Context(), r.PathValue("deletion"))
}

// listOutcomes answers a page of the outcomes that match.
func (a *admin) listOutcomes(r *http.Request) (any, error) {
	q := newQuery(r)
	limit, offset := defaultPage, 0
	var userIDs, destinations, sources []string
	var state string
	q.int("limit", &limit, 1, maxPage)
	q.int("offset", &offset, 0, 1<<30)
	userIDs, sources, destinations = q.take("userId"), q.take("source"), q.take("destination")
	wanted := q.state(&state)
	if err := q.done(); err != nil {
		return nil, err
	}
	page := struct {
		Outcomes []users.DeletionOutcome `json:"outcomes"`
		More     bool                    `json:"more"`
	}{Outcomes: []users.DeletionOutcome{}}
	for o, err := range a.c.Users().DeletionOutcomes(r.Context(), r.PathValue("deletion")) {
		switch {
		case err != nil:
			return nil, err
		case !anyOf(userIDs, o.UserID) || !anyOf(sources, o.Source) || !anyOf(destinations, o.Destination) || state != "" && o.State != wanted:
			continue
		case offset > 0:
			offset--
			continue
		}
		if page.More = len(page.Outcomes) == limit; page.More {
			break
		}
		page.Outcomes = append(page.Outcomes, o)
	}
	return page, nil
}

// anyOf reports whether a value is one of those wanted, or none is.
func anyOf(wanted []string, value string) bool {
	return len(wanted) == 0 || slices.Contains(wanted, value)
}

func (a *admin) listComputations(r *http.Request) (any, error) {
	all, err := a.c.Users().Computations(r.Context())
	return map[string]any{"computations": append([]users.Computation{}, all...)}, err
}

func (a *admin) getComputation(r *http.Request) (any, error) {
	return a.c.Users().Computation(r.Context(), r.PathValue("computation"))
}

func (a *admin) forgetComputation(r *http.Request) (any, error) {
	return nil, a.c.Users().ForgetComputation(r.Context(), r.PathValue("computation"))
}

func (a *admin) getSync(r *http.Request) (any, error) {
	return a.c.Users().Sync(r.Context(), r.PathValue("sync"))
}

func (a *admin) syncAudience(r *http.Request) (any, error) {
	s := users.AudienceSync{Name: r.PathValue("audience"), Members: users.ReadMembers(r.Body)}
	if err := readSync(r, "text/plain", &s.Source, &s.Destination, &s.DryRun, &s.Full, &s.AllowEmpty); err != nil {
		return nil, err
	}
	return synced(r, s.DryRun)(a.c.Users().SyncAudience(r.Context(), s))
}

func (a *admin) syncTrait(r *http.Request) (any, error) {
	s := users.TraitSync{Name: r.PathValue("trait"), Values: users.ReadValues(r.Body)}
	if err := readSync(r, "application/x-ndjson", &s.Source, &s.Destination, &s.DryRun, &s.Full, &s.AllowEmpty); err != nil {
		return nil, err
	}
	return synced(r, s.DryRun)(a.c.Users().SyncTrait(r.Context(), s))
}

// synced answers a dry run with its numbers, and a sync as something new. Where the
// list was refused, it reads what is left of it.
func synced(r *http.Request, dryRun bool) func(users.Sync, error) (any, error) {
	return func(s users.Sync, err error) (any, error) {
		switch {
		case err != nil:
			access.ReadRest(r)
			return nil, err
		case dryRun:
			return s, nil
		}
		return created{s}, nil
	}
}

// readSync reads the parameters of a sync, whose list must have the Content-Type want.
func readSync(r *http.Request, want string, source, destination *string, dryRun, full, allowEmpty *bool) error {
	q := newQuery(r)
	q.text("source", source)
	q.text("destination", destination)
	q.bool("dryRun", dryRun)
	q.bool("full", full)
	q.bool("allowEmpty", allowEmpty)
	if typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); typ != want {
		return access.Errorf(http.StatusUnsupportedMediaType, "wrong_type", "the Content-Type is %.40q; the list must be %s, one user a line", typ, want)
	}
	return q.done()
}
