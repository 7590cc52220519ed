package page

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

// RequireLogin passes authorized requests to next. For other requests, it redirects to the
// login page or shows an error.
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

// Check returns an error if a request is not authorized.
func (s *Server) Check(r *http.Request) *access.Error {
	refused := s.Guard.Check(r)
	if refused != nil && refused.Status == http.StatusUnauthorized && s.Sessions.Has(r) {
		return nil
	}
	return refused
}

func refusal(refused *access.Error) Response {
	return Problem(refused.Status, "Request refused", Sentence(refused.Message))
}

// redirectToLogin redirects to the login page, which redirects back.
func (s *Server) redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if IsFragment(r) || r.Method != http.MethodGet || r.URL.Path == "/stream" {
		s.Write(w, r, Problem(http.StatusUnauthorized, "Session expired", "Log in again."))
		return
	}
	from := r.URL.RequestURI()
	if from == "/" {
		from = "" // the default
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, Link("/login", "to", from), http.StatusSeeOther)
}

// A loginForm contains the values of the login page.
type loginForm struct {
	To    string
	Wrong bool
}

// ServeLogin serves and handles the login form.
func (s *Server) ServeLogin(w http.ResponseWriter, r *http.Request) {
	if refused := s.Guard.Check(r); refused != nil && refused.Status != http.StatusUnauthorized {
		s.Write(w, r, refusal(refused))
		return
	}
	if err := readForm(w, r); err != nil {
		s.Write(w, r, refusal(access.ErrorOf(err)))
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
	s.Write(w, r, Response{Template: "login", Status: status, Page: Page{Title: "Log in", Body: form}})
}

// ServeLogout ends a session.
func (s *Server) ServeLogout(w http.ResponseWriter, r *http.Request) {
	s.Serve(func(*http.Request) (Response, error) {
		cookie, err := s.Sessions.End(r)
		if err == nil {
			http.SetCookie(w, cookie)
		}
		return Response{To: "/login"}, err
	})(w, r)
}

// ownPath returns target if it is a path of this server, and "/" otherwise, to prevent
// redirects to other sites.
func ownPath(target string) string {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
		strings.HasPrefix(target, "//") || strings.Contains(target, `\`) {
		return "/"
	}
	return target
}
