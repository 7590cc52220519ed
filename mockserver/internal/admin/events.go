package admin

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/fields"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/shapes"
)

// An eventView is an event in a list.
type eventView struct {
	shapes.Event
	Properties int       `json:"properties"`
	Violations *struct{} `json:"violations,omitempty"` // omits the violations of the embedded event
}

func (a *admin) listEvents(r *http.Request) (any, error) {
	q := newQuery(r)
	var source, typ, name string
	odd := false
	q.text("source", &source)
	if q.text("type", &typ); typ != "" {
		q.oneOf("type", []string{typ}, fields.EventTypes)
	}
	q.text("event", &name)
	q.bool("odd", &odd)
	if err := q.done(); err != nil {
		return nil, err
	}
	response := struct {
		shapes.Summary
		Events []eventView `json:"events"`
	}{a.c.Shapes().Summary(), []eventView{}}
	for _, e := range a.c.Shapes().Events() {
		if (source == "" || e.Source == source) && (typ == "" || e.Type == typ) && (name == "" || e.Name == name) && (!odd || len(e.Anomalies) > 0) {
			response.Events = append(response.Events, eventView{Event: e, Properties: len(e.Properties)})
		}
	}
	return response, nil
}

// eventHandler returns a handler that returns a view of an event.
func eventHandler(view func(shapes.Event) any) handler {
	return func(a *admin, r *http.Request) (any, error) {
		e, ok := a.c.Shapes().Event(r.PathValue("event"))
		if !ok {
			return nil, unknownEvent(r)
		}
		return view(e), nil
	}
}

func unknownEvent(r *http.Request) error {
	return access.Errorf(http.StatusNotFound, "not_found", "no event %.40q; list IDs with /api/v1/events", r.PathValue("event"))
}

func (a *admin) deleteEvent(r *http.Request) (any, error) {
	if !a.c.Shapes().Delete(r.PathValue("event")) {
		return nil, unknownEvent(r)
	}
	return nil, nil
}
