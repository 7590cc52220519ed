package admin

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// maxAdminBody bounds the body of a request to the admin API, in bytes.
const maxAdminBody = 1 << 20

//go:embed openapi.yaml
var openAPI []byte

// admin serves the admin API.
type admin struct {
	c       *engine.Collector
	version string
	mux     *http.ServeMux
}

// An adminRoute answers one method of one path.
type adminRoute struct {
	method, path string
	handle       func(*admin, *http.Request) (any, error)
}

var adminRoutes = []adminRoute{
	{"GET", "/api/v1/health", (*admin).getHealth},
	{"GET", "/api/v1/ledger", (*admin).getLedger},
	{"GET", "/api/v1/sources", (*admin).listSources},
	{"POST", "/api/v1/sources", (*admin).addSource},
	{"GET", "/api/v1/sources/{source}", (*admin).getSource},
	{"PATCH", "/api/v1/sources/{source}", (*admin).changeSource},
	{"DELETE", "/api/v1/sources/{source}", (*admin).removeSource},
	{"GET", "/api/v1/destinations", (*admin).listDestinations},
	{"POST", "/api/v1/destinations", (*admin).addDestination},
	{"GET", "/api/v1/destinations/{destination}", (*admin).getDestination},
	{"PATCH", "/api/v1/destinations/{destination}", (*admin).changeDestination},
	{"DELETE", "/api/v1/destinations/{destination}", (*admin).removeDestination},
	{"POST", "/api/v1/destinations/{destination}/pause", (*admin).pauseDestination},
	{"POST", "/api/v1/destinations/{destination}/resume", (*admin).resumeDestination},
	{"POST", "/api/v1/destinations/{destination}/replay", (*admin).replayDestination},
	{"GET", "/api/v1/destinations/{destination}/failed", (*admin).listFailed},
	{"GET", "/api/v1/calls", (*admin).listCalls},
	{"GET", "/api/v1/calls/{source}/{messageId}", (*admin).getCall},
	{"GET", "/api/v1/calls/{source}/{messageId}/attempts", (*admin).listAttempts},
	{"POST", "/api/v1/calls/{source}/{messageId}/replay", (*admin).replayCall},
	{"GET", "/api/v1/rejections", (*admin).listRejections},
	{"GET", "/api/v1/deletions", (*admin).listDeletions},
	{"POST", "/api/v1/deletions", (*admin).addDeletion},
	{"GET", "/api/v1/deletions/{deletion}", (*admin).getDeletion},
	{"GET", "/api/v1/deletions/{deletion}/outcomes", (*admin).listOutcomes},
	{"GET", "/api/v1/computations", (*admin).listComputations},
	{"GET", "/api/v1/computations/{computation}", (*admin).getComputation},
	{"DELETE", "/api/v1/computations/{computation}", (*admin).forgetComputation},
	{"POST", "/api/v1/audiences/{audience}/syncs", (*admin).syncAudience},
	{"POST", "/api/v1/traits/{trait}/syncs", (*admin).syncTrait},
	{"GET", "/api/v1/syncs/{sync}", (*admin).getSync},
}

// New returns a handler that serves a collector's admin API under /api/v1,
// with its description at /api/v1/openapi.yaml, and with Config.Messages also
// /messages. It trusts every request: put it behind a [access.Guard]. version is that of the
// program, for the health resource.
func New(c *engine.Collector, version string) http.Handler {
	a := &admin{c: c, version: version, mux: http.NewServeMux()}
	for _, route := range adminRoutes {
		a.mux.HandleFunc(route.method+" "+route.path, func(w http.ResponseWriter, r *http.Request) {
			r.Body = access.NewLongBody(w, r)
			body, err := route.handle(a, r)
			a.answer(w, body, err)
		})
	}
	if messages := c.Messages(); messages != nil {
		messages = access.SameOrigin(messages)
		a.mux.Handle("GET /messages", messages)
		a.mux.Handle("POST /messages", messages)
	}
	a.mux.HandleFunc("GET /api/v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(openAPI)
	})
	return a
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
		a.answer(w, nil, access.Errorf(http.StatusMethodNotAllowed, "method_not_allowed", "%s takes %s, not %s", r.URL.Path, methods, r.Method))
		return
	}
	a.answer(w, nil, access.Errorf(http.StatusNotFound, "not_found", "there is no %s here; /api/v1/openapi.yaml describes what there is", r.URL.Path))
}

// created is the answer to a request that made something.
type created struct{ body any }

// answer writes what a handler returned: nothing, something, or what was wrong.
func (a *admin) answer(w http.ResponseWriter, body any, err error) {
	if err != nil {
		refused := access.ErrorOf(err)
		if refused.Status >= 500 {
			a.c.Logger().Error("an admin request failed", "error", err)
		}
		refused.Write(w)
		return
	}
	if body == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if c, ok := body.(created); ok {
		access.WriteJSON(w, http.StatusCreated, c.body)
		return
	}
	access.WriteJSON(w, http.StatusOK, body)
}

// readJSON reads the body of a request into v, a pointer to a struct, strictly.
// An empty body leaves v as it is.
func readJSON(r *http.Request, v any) error { return readJSONUpTo(r, v, maxAdminBody) }

// readJSONUpTo reads a body of so many bytes at most.
func readJSONUpTo(r *http.Request, v any, most int64) error {
	data, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return err
	case int64(len(data)) > most:
		return access.Errorf(http.StatusRequestEntityTooLarge, "body_too_large", "the body has more than %d bytes", most)
	case len(data) == 0:
		return nil
	}
	if typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); typ != "application/json" {
		return access.Errorf(http.StatusUnsupportedMediaType, "not_json", "the Content-Type is %.40q; it must be application/json", typ)
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return badJSON(err, v)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "the body goes on after its object; send one object")
	}
	return nil
}

// badJSON says what is wrong with a body, and what v could take.
func badJSON(err error, v any) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "%s is a %s; it must be a %s", wrongType.Field, wrongType.Value, jsonType(wrongType.Type))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "there is no member %s; the members are %s", name, strings.Join(jsonMembers(reflect.TypeOf(v).Elem()), ", "))
	}
	return access.Errorf(http.StatusBadRequest, "invalid_json", "the body is not the JSON object that it should be: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// jsonType names a Go type in the words of JSON.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "list"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return "number"
}

func jsonMembers(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
