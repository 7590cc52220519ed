package mockserver

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/ingest"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
)

// A faultyHandler applies faults to requests to the tracking API.
type faultyHandler struct {
	faults   *faults
	sourceOf func(writeKey string) (name string, known bool)
	life     context.Context // canceling it ends hanging requests
	next     http.Handler
}

func (h *faultyHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := h.faults.take(func(f *Fault) bool { return h.applies(f, r) })
	if f == nil {
		h.next.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	if f.Delay > 0 && pause.For(ctx, f.Delay) != nil {
		panic(http.ErrAbortHandler)
	}
	if !f.answers() {
		h.next.ServeHTTP(w, r)
		return
	}
	if f.AnswerOnly {
		h.next.ServeHTTP(&discardResponse{header: http.Header{}}, r)
	}
	ingest.AllowOrigin(w, r)
	_, _ = io.Copy(io.Discard, r.Body) // net/http detects a closed connection only after the body is read
	if f.Hang {
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	body := f.Body
	if body == "" && f.Status >= 400 {
		body = `{"success":false,"code":"fault","message":"injected fault","error":"injected fault"}` + "\n"
	}
	f.answer(w, body)
}

// applies reports whether a fault applies to a request.
func (h *faultyHandler) applies(f *Fault, r *http.Request) bool {
	e := ingest.FindEndpoint(r.URL.Path)
	if e.Kind == ingest.NoEndpoint {
		return false
	}
	if f.source != "" {
		keys := ingest.WriteKeysOf(r)
		if source, _ := h.sourceOf(cmp.Or(keys.Basic, keys.Other)); f.source != source {
			return false
		}
	}
	if f.Match != nil {
		return f.Match(r)
	}
	return r.Method == http.MethodPost && (e.Kind == ingest.BatchEndpoint || e.Kind == ingest.CallEndpoint)
}

// discardResponse discards a response.
type discardResponse struct{ header http.Header }

func (d *discardResponse) Header() http.Header         { return d.header }
func (d *discardResponse) Write(b []byte) (int, error) { return len(b), nil }
func (d *discardResponse) WriteHeader(int)             {}
