package admin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/settings"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// admin serves the admin API.
type admin struct {
	c          *engine.Collector
	version    string
	mux        *http.ServeMux
	resets     resets
	waiting    chan struct{} // one element per waiting request
	explaining sync.Mutex    // held while a report is built
}

// withStatus is a response with a status other than 200.
type withStatus struct {
	status int
	body   any
}

// created returns a response with status 201.
func created(body any) withStatus { return withStatus{http.StatusCreated, body} }

// maxWaiting limits the number of waiting requests, because each one examines every new call.
const maxWaiting = 100

// beginWait registers a waiting request until end is called. It fails if too many requests are
// waiting.
func (a *admin) beginWait() (end func(), err error) {
	select {
	case a.waiting <- struct{}{}:
		return func() { <-a.waiting }, nil
	default:
		return nil, access.Errorf(http.StatusTooManyRequests, "too_many_waiting", "%d requests are already waiting; try again later", maxWaiting)
	}
}

// respond writes the result of a handler: an empty response, a value or an error.
func (a *admin) respond(w http.ResponseWriter, r *http.Request, body any, err error) {
	if err != nil {
		if access.IsFailure(r, err) {
			a.c.Logger().Error("admin request failed", "error", err)
		}
		access.ErrorOf(err).Write(w, r)
		return
	}
	switch b := body.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case withStatus:
		access.WriteJSON(w, r, b.status, b.body)
	default:
		access.WriteJSON(w, r, http.StatusOK, body)
	}
}

// maxAdminBody limits a request body, in bytes.
const maxAdminBody = 1 << 20

// readJSON decodes a request body into v, a pointer to a struct. It rejects unknown fields.
// An empty body leaves v unchanged.
func readJSON(r *http.Request, v any) error { return readJSONUpTo(r, v, maxAdminBody) }

// readBody reads a JSON body, which may be empty. most is the maximum size of the body, in bytes.
func readBody(r *http.Request, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, access.Errorf(http.StatusRequestEntityTooLarge, "body_too_large", "the body has more than %d bytes", most)
	case len(data) == 0:
		return nil, nil
	}
	if typ, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); typ != "application/json" {
		return nil, access.Errorf(http.StatusUnsupportedMediaType, "not_json", "Content-Type is %.40q; it must be application/json", typ)
	}
	return data, nil
}

// readJSONUpTo is like readJSON. most is the maximum size of the body, in bytes.
func readJSONUpTo(r *http.Request, v any, most int64) error {
	data, err := readBody(r, most)
	if err != nil || len(data) == 0 {
		return err
	}
	if err := text.ParseJSON(data, v); err != nil {
		return badJSON(err, v)
	}
	return nil
}

// badJSON returns an error for a body that cannot be decoded into v.
func badJSON(err error, v any) error {
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "%s is a %s; it must be a %s", text.CutBytes(text.MaxRepeated, embedded.ReplaceAllString(wrongType.Field, "")), wrongType.Value, jsonType(wrongType.Type))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "unknown field %s; the fields are %s", text.CutBytes(text.MaxRepeated, name), strings.Join(jsonMembers(reflect.TypeOf(v).Elem()), ", "))
	}
	return access.Errorf(http.StatusBadRequest, "invalid_json", "invalid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// embedded matches the names of embedded structs at the start of a field's path. The names of fields are
// not capitalized.
var embedded = regexp.MustCompile(`^([A-Z]\w*\.)+`)

// jsonType returns the JSON name of a Go type.
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
	for name := range settings.Fields(reflect.Zero(t)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
