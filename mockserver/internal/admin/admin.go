package admin

import (
	_ "embed"
	"net/http"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

//go:embed openapi.yaml
var openAPI []byte

// An adminRoute is the handler of a method and path.
type adminRoute struct {
	method, path string
	handle       handler
}

// A handler returns the body of the response, or an error.
type handler func(*admin, *http.Request) (any, error)

// adminRoutes are the routes without query parameters.
var adminRoutes = []adminRoute{
	{"GET", "/api/v1/health", (*admin).getHealth},
	{"GET", "/api/v1/sources", (*admin).listSources},
	{"POST", "/api/v1/sources", (*admin).addSource},
	{"GET", "/api/v1/sources/{source}", (*admin).getSource},
	{"PATCH", "/api/v1/sources/{source}", (*admin).changeSource},
	{"DELETE", "/api/v1/sources/{source}", (*admin).removeSource},
	{"GET", "/api/v1/destinations", (*admin).listDestinations},
	{"POST", "/api/v1/destinations", (*admin).addDestination},
	{"POST", "/api/v1/destinations/preview", (*admin).previewDestination},
	{"GET", "/api/v1/destinations/{destination}", (*admin).getDestination},
	{"PATCH", "/api/v1/destinations/{destination}", (*admin).changeDestination},
	{"POST", "/api/v1/destinations/{destination}/pause", (*admin).pauseDestination},
	{"POST", "/api/v1/destinations/{destination}/resume", (*admin).resumeDestination},
	{"POST", "/api/v1/destinations/{destination}/test", (*admin).testDestination},
	{"POST", "/api/v1/destinations/{destination}/replay", (*admin).replayDestination},
	{"POST", "/api/v1/destinations/{destination}/replays", (*admin).startReplay},
	{"GET", "/api/v1/replays", (*admin).listReplays},
	{"GET", "/api/v1/replays/{replay}", (*admin).getReplay},
	{"GET", "/api/v1/calls/{source}/{messageId}", (*admin).getCall},
	{"GET", "/api/v1/calls/{source}/{messageId}/attempts", (*admin).listAttempts},
	{"POST", "/api/v1/calls/{source}/{messageId}/replay", (*admin).replayCall},
	{"GET", "/api/v1/problems", (*admin).getProblems},
	{"GET", "/api/v1/events/{event}", eventHandler(func(e shapes.Event) any { return e })},
	{"DELETE", "/api/v1/events/{event}", (*admin).deleteEvent},
	{"GET", "/api/v1/events/{event}/schema", eventHandler(func(e shapes.Event) any { return e.Schema() })},
	{"GET", "/api/v1/events/{event}/like", eventHandler(func(e shapes.Event) any { return map[string]string{"go": e.Like()} })},
	{"GET", "/api/v1/deletions", (*admin).listDeletions},
	{"POST", "/api/v1/deletions", (*admin).addDeletion},
	{"GET", "/api/v1/deletions/{deletion}", (*admin).getDeletion},
	{"GET", "/api/v1/computations", (*admin).listComputations},
	{"GET", "/api/v1/computations/{computation}", (*admin).getComputation},
	{"DELETE", "/api/v1/computations/{computation}", (*admin).deleteComputation},
	{"GET", "/api/v1/syncs/{sync}", (*admin).getSync},
}

// queryRoutes are the routes with query parameters. Their handlers check them.
var queryRoutes = []adminRoute{
	{"GET", "/api/v1/ledger", (*admin).getLedger},
	{"DELETE", "/api/v1/destinations/{destination}", (*admin).removeDestination},
	{"GET", "/api/v1/destinations/{destination}/failed", (*admin).listFailed},
	{"GET", "/api/v1/calls", (*admin).listCalls},
	{"GET", "/api/v1/users/{user}/timeline", (*admin).getTimeline},
	{"GET", "/api/v1/activity", (*admin).listActivity},
	{"GET", "/api/v1/rejections", (*admin).listRejections},
	{"GET", "/api/v1/events", (*admin).listEvents},
	{"GET", "/api/v1/deletions/{deletion}/outcomes", (*admin).listOutcomes},
	{"POST", "/api/v1/audiences/{audience}/syncs", (*admin).syncAudience},
	{"POST", "/api/v1/traits/{trait}/syncs", (*admin).syncTrait},
}

// TestPaths are the paths outside /api/v1 for tests. New serves them if Config.Messages is set
// in the engine.
var TestPaths = []string{"/messages", "/good", "/bad", "/all", "/reset", "/expect"}

// testRoutes are the handlers of TestPaths, except /messages.
var testRoutes = []adminRoute{
	{"GET", "/good", func(a *admin, r *http.Request) (any, error) { return a.listReceived(r, true, false) }},
	{"GET", "/bad", func(a *admin, r *http.Request) (any, error) { return a.listReceived(r, false, true) }},
	{"GET", "/all", func(a *admin, r *http.Request) (any, error) { return a.listReceived(r, true, true) }},
	{"POST", "/reset", (*admin).reset},
	{"POST", "/expect", withoutParameters((*admin).expect)},
}

// New returns a handler for the admin API of a collector under /api/v1, and for [TestPaths].
// It does not authorize requests: wrap it in an [access.Guard]. The health resource reports
// version.
func New(c *engine.Collector, version string) http.Handler {
	a := &admin{c: c, version: version, mux: http.NewServeMux(), waiting: make(chan struct{}, maxWaiting)}
	for _, route := range adminRoutes {
		a.mux.Handle(route.method+" "+route.path, a.serve(withoutParameters(route.handle)))
	}
	for _, route := range queryRoutes {
		a.mux.Handle(route.method+" "+route.path, a.serve(route.handle))
	}
	if messages := c.Messages(); messages != nil {
		messages = access.SameOrigin(messages)
		a.mux.Handle("GET /messages", messages)
		a.mux.Handle("POST /messages", messages)
		for _, route := range testRoutes {
			a.mux.Handle(route.method+" "+route.path, access.SameOrigin(a.serve(route.handle)))
		}
	}
	a.mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		access.WriteBody(w, r, http.StatusOK, openAPI)
	})
	return a
}

func (a *admin) serve(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = access.NewLongBody(w, r)
		body, err := handle(a, r)
		a.respond(w, r, body, err)
	})
}

// withoutParameters returns a handler that refuses requests with parameters in the query.
func withoutParameters(handle handler) handler {
	return func(a *admin, r *http.Request) (any, error) {
		if err := newQuery(r).done(); err != nil {
			return nil, err
		}
		return handle(a, r)
	}
}

func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if _, pattern := a.mux.Handler(r); pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	var allowed []string
	for _, method := range []string{"GET", "POST", "PATCH", "DELETE"} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := a.mux.Handler(other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 {
		methods := strings.Join(allowed, ", ")
		w.Header().Set("Allow", methods)
		a.respond(w, r, nil, access.Errorf(http.StatusMethodNotAllowed, "method_not_allowed", "%s supports %s, not %s", text.CutBytes(text.MaxRepeated, r.URL.Path), methods, r.Method))
		return
	}
	a.respond(w, r, nil, access.Errorf(http.StatusNotFound, "not_found", "no resource %s; see /api/v1/openapi.yaml", text.CutBytes(text.MaxRepeated, r.URL.Path)))
}
