package eventpage

import (
	"net/http"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/inspector/page"
)

// Routes returns the handlers by pattern.
func Routes(c *engine.Collector, s *page.Server) map[string]http.HandlerFunc {
	p := &pages{c}
	return map[string]http.HandlerFunc{
		"GET /events":         s.Serve(p.showEvents),
		"GET /event":          s.Serve(p.showEvent),
		"GET /plans":          s.Serve(p.showPlans),
		"POST /events/forget": s.ServeForm(p.forgetEvent),
	}
}

func (p *pages) forgetEvent(r *http.Request) (page.Answer, error) {
	if !p.c.Shapes().Delete(r.PostForm.Get("id")) {
		return unknown(), nil
	}
	return page.SendTo("/events", "Event statistics deleted.")
}
