package page

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

// RequireLogin passes requests to next that may use the inspector. Others are sent to
// the login, or told what is wrong.
func (s *Server) RequireLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch refused := s.Check(r); {
		case refused == nil:
			next.ServeHTTP(w, r)
		case refused.Status == http.StatusUnauthorized:
			s.redirectToLogin(w, r)
		default:
			s.Write(w, r, refusal(refused))
		}
	})
}

// Check returns why a request may not use the inspector, or nil.
func (s *Server) Check(r *http.Request) *access.Error {
	refused := s.Guard.Check(r)
	if refused != nil && refused.Status == http.StatusUnauthorized && s.Sessions.Has(r) {
		return nil
	}
	return refused
}

func refusal(refused *access.Error) Answer {
	return Problem(refused.Status, "Request refused", refused.Message)
}

// redirectToLogin sends a browser to the login, which sends it back.
func (s *Server) redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if IsFragment(r) || r.Method != http.MethodGet || r.URL.Path == "/stream" {
		s.Write(w, r, Problem(http.StatusUnauthorized, "Session expired", "Log in again."))
		return
	}
	target := "/login"
	if r.URL.Path != "/" || r.URL.RawQuery != "" {
		target += "?to=" + url.QueryEscape(r.URL.RequestURI())
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, target, http.StatusSeeOther)
}

// A loginForm is what the login page shows.
type loginForm struct {
	To    string
	Wrong bool
}

// ServeLogin serves the form of the login, and takes it.
func (s *Server) ServeLogin(w http.ResponseWriter, r *http.Request) {
	if refused := s.Guard.Check(r); refused != nil && refused.Status != http.StatusUnauthorized {
		s.Write(w, r, refusal(refused))
		return
	}
	if !readForm(w, r) {
		return
	}
	form := loginForm{To: ownPath(r.Form.Get("to"))}
	if s.Guard.IsOpen() {
		http.Redirect(w, r, form.To, http.StatusSeeOther)
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		refused := s.Guard.CheckToken(r, "Bearer "+r.PostForm.Get("token"))
		switch {
		case refused == nil:
			http.SetCookie(w, s.Sessions.Start(r))
			http.Redirect(w, r, form.To, http.StatusSeeOther)
			return
		case refused.Status == http.StatusTooManyRequests:
			s.Write(w, r, Problem(refused.Status, "Too many attempts", Sentence(refused.Message)))
			return
		}
		form.Wrong, status = true, http.StatusUnauthorized
	}
	s.Write(w, r, Answer{Template: "login", Status: status, Page: Page{Title: "Log in", Body: form}})
}

// ServeLogout ends a session.
func (s *Server) ServeLogout(w http.ResponseWriter, r *http.Request) {
	s.Serve(func(*http.Request) (Answer, error) {
		cookie, err := s.Sessions.End(r)
		if err == nil {
			http.SetCookie(w, cookie)
		}
		return Answer{To: "/login"}, err
	})(w, r)
}

// ownPath returns a path of this server, / where it is none: a link to the login
// must not lead to another site.
func ownPath(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(target, "//") || strings.Contains(target, `\`) {
		return "/"
	}
	return target
}
