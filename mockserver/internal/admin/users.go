package admin

import (
	"mime"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/users"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// maxDeletionBody limits the body of a deletion request, in bytes.
const maxDeletionBody = 16 << 20

func (a *admin) addDeletion(r *http.Request) (any, error) {
	var in users.DeletionRequest
	if err := readJSONUpTo(r, &in, maxDeletionBody); err != nil {
		return nil, err
	}
	d, err := a.c.Users().DeleteUsers(r.Context(), in)
	return created(d), err
}

func (a *admin) listDeletions(r *http.Request) (any, error) {
	all, err := a.c.Users().Deletions(r.Context())
	return map[string]any{"deletions": append([]users.Deletion{}, all...)}, err
}

func (a *admin) getDeletion(r *http.Request) (any, error) {
	return a.c.Users().Deletion(r.Context(), r.PathValue("deletion"))
}

func (a *admin) listOutcomes(r *http.Request) (any, error) {
	q := newQuery(r)
	limit, offset := defaultPage, 0
	q.int("limit", &limit, 1, maxPage)
	q.int("offset", &offset, 0, 1<<30)
	filter := users.OutcomeFilter{UserIDs: q.take("userId"), Sources: q.take("source"), Destinations: q.take("destination")}
	var state string
	if wanted := q.state(&state); state != "" {
		filter.States = []tracking.State{wanted}
	}
	if err := q.done(); err != nil {
		return nil, err
	}
	outcomes, more, err := a.c.Users().DeletionOutcomes(r.Context(), r.PathValue("deletion"), filter, offset, limit)
	return map[string]any{"outcomes": append([]users.DeletionOutcome{}, outcomes...), "more": more}, err
}

func (a *admin) listComputations(r *http.Request) (any, error) {
	all, err := a.c.Users().Computations(r.Context())
	return map[string]any{"computations": append([]users.Computation{}, all...)}, err
}

func (a *admin) getComputation(r *http.Request) (any, error) {
	return a.c.Users().Computation(r.Context(), r.PathValue("computation"))
}

func (a *admin) deleteComputation(r *http.Request) (any, error) {
	return nil, a.c.Users().DeleteComputation(r.Context(), r.PathValue("computation"))
}

func (a *admin) getSync(r *http.Request) (any, error) {
	return a.c.Users().Sync(r.Context(), r.PathValue("sync"))
}

// syncAudience handles a list of members, one per line.
func (a *admin) syncAudience(r *http.Request) (any, error) {
	return a.startSync(r, "text/plain", users.SyncRequest{Kind: users.KindAudience, Name: r.PathValue("audience")})
}

// syncTrait handles a list of values, one per line.
func (a *admin) syncTrait(r *http.Request) (any, error) {
	return a.startSync(r, "application/x-ndjson", users.SyncRequest{Kind: users.KindTrait, Name: r.PathValue("trait")})
}

// startSync reads a list with the Content-Type want and starts a sync. If it rejects the list,
// it reads the rest first, because a client does not see the response while it is sending.
func (a *admin) startSync(r *http.Request, want string, s users.SyncRequest) (any, error) {
	q := newQuery(r)
	q.text("source", &s.Source)
	q.text("destination", &s.Destination)
	q.bool("dryRun", &s.DryRun)
	q.bool("full", &s.Full)
	q.bool("allowEmpty", &s.AllowEmpty)
	err := q.done()
	if typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); typ != want {
		err = access.Errorf(http.StatusUnsupportedMediaType, "wrong_type", "Content-Type is %.40q; it must be %s, one user per line", typ, want)
	}
	if err != nil {
		if r.Header.Get("Expect") == "" { // otherwise the client does not send the list
			access.ReadRest(r)
		}
		return nil, err
	}
	s.List = r.Body
	sync, err := a.c.Users().StartSync(r.Context(), s)
	switch {
	case err != nil:
		access.ReadRest(r)
		return nil, err
	case s.DryRun:
		return sync, nil
	}
	return created(sync), nil
}
