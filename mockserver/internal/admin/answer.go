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
	"sync"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
)

// admin serves the admin API.
type admin struct {
	c          *engine.Collector
	version    string
	mux        *http.ServeMux
	resets     resets
	waiting    chan struct{} // holds an element for each request that waits for something to happen
	explaining sync.Mutex    // lets one report be made at a time
}

// withStatus is an answer with another status than 200.
type withStatus struct {
	status int
	body   any
}

// created returns the answer to a request that created something.
func created(body any) withStatus { return withStatus{http.StatusCreated, body} }

// maxWaiting is how many requests may wait for something to happen at once: each looks at
// every call that comes.
const maxWaiting = 100

// beginWait lets a request wait, until end is called, unless too many do.
func (a *admin) beginWait() (end func(), err error) {
	select {
	case a.waiting <- struct{}{}:
		return func() { <-a.waiting }, nil
	default:
		return nil, access.Errorf(http.StatusTooManyRequests, "too_many_waiting", "%d requests are already waiting; try again later", maxWaiting)
	}
}

// answer writes what a handler returned: nothing, something, or what was wrong.
func (a *admin) answer(w http.ResponseWriter, body any, err error) {
	if err != nil {
		refused := access.ErrorOf(err)
		if refused.Status >= 500 {
			a.c.Logger().Error("admin request failed", "error", err)
		}
		refused.Write(w)
		return
	}
	switch b := body.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case withStatus:
		access.WriteJSON(w, b.status, b.body)
	default:
		access.WriteJSON(w, http.StatusOK, body)
	}
}

// maxAdminBody bounds the body of a request to the admin API, in bytes.
const maxAdminBody = 1 << 20

// readJSON reads the body of a request into v, a pointer to a struct, strictly.
// An empty body leaves v as it is.
func readJSON(r *http.Request, v any) error { return readJSONUpTo(r, v, maxAdminBody) }

// readBody reads a body of so many bytes at most, which is to be JSON unless it is empty.
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

// readJSONUpTo reads a body of so many bytes at most.
func readJSONUpTo(r *http.Request, v any, most int64) error {
	data, err := readBody(r, most)
	if err != nil || len(data) == 0 {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(data)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return badJSON(err, v)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return access.Errorf(http.StatusBadRequest, "invalid_json", "unexpected data after the object; send one object")
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
		return access.Errorf(http.StatusBadRequest, "invalid_json", "unknown field %s; the fields are %s", name, strings.Join(jsonMembers(reflect.TypeOf(v).Elem()), ", "))
	}
	return access.Errorf(http.StatusBadRequest, "invalid_json", "invalid JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
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
