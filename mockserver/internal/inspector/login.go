package inspector

import (
	"net/http"
	"net/url"
	"strings"
)

// requireLogin passes requests to next that may use the inspector. Others are sent to
// the login, or told what is wrong.
func (in *Inspector) requireLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused := in.guard.Check(r)
		switch {
		case refused == nil:
		case refused.Status != http.StatusUnauthorized:
			in.renderProblem(w, refused.Status, "The request was refused", refused.Message)
			return
		case !in.sessions.Has(r):
			in.redirectToLogin(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isAllowed reports whether requireLogin passes a request to next.
func (in *Inspector) isAllowed(r *http.Request) bool {
	refused := in.guard.Check(r)
	return refused == nil || refused.Status == http.StatusUnauthorized && in.sessions.Has(r)
}

// redirectToLogin sends a browser to the login, which sends it back.
func (in *Inspector) redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if isFragment(r) || r.Method != http.MethodGet || r.URL.Path == "/stream" {
		in.renderProblem(w, http.StatusUnauthorized, "You are not logged in", "Log in again; the session has ended.")
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

func (in *Inspector) serveLogin(w http.ResponseWriter, r *http.Request) {
	if refused := in.guard.Check(r); refused != nil && refused.Status != http.StatusUnauthorized {
		in.renderProblem(w, refused.Status, "The request was refused", refused.Message)
		return
	}
	if !readForm(w, r) {
		return
	}
	form := loginForm{To: ownPath(r.Form.Get("to"))}
	if in.guard.IsOpen() {
		http.Redirect(w, r, form.To, http.StatusSeeOther)
		return
	}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		refused := in.guard.CheckToken(r, "Bearer "+r.PostForm.Get("token"))
		switch {
		case refused == nil:
			http.SetCookie(w, in.sessions.Start(r))
			http.Redirect(w, r, form.To, http.StatusSeeOther)
			return
		case refused.Status == http.StatusTooManyRequests:
			in.renderProblem(w, refused.Status, "Too many attempts", sentence(refused.Message))
			return
		}
		form.Wrong, status = true, http.StatusUnauthorized
	}
	in.render(w, status, "login", page{Title: "Log in", Body: form})
}

func (in *Inspector) serveLogout(w http.ResponseWriter, r *http.Request) {
	cookie, err := in.sessions.End(r)
	if err != nil {
		in.renderError(w, err)
		return
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
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
