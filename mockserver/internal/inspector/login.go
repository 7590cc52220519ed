package inspector

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
)

// requireLogin passes requests to next that may use the inspector. Others are sent to
// the login, or told what is wrong.
func (in *Inspector) requireLogin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch refused := in.check(r); {
		case refused == nil:
			next.ServeHTTP(w, r)
		case refused.Status == http.StatusUnauthorized:
			in.redirectToLogin(w, r)
		default:
			in.write(w, r, refusal(refused))
		}
	})
}

// check returns why a request may not use the inspector, or nil.
func (in *Inspector) check(r *http.Request) *access.Error {
	refused := in.guard.Check(r)
	if refused != nil && refused.Status == http.StatusUnauthorized && in.sessions.Has(r) {
		return nil
	}
	return refused
}

func refusal(refused *access.Error) answer {
	return problem(refused.Status, "The request was refused", refused.Message)
}

// redirectToLogin sends a browser to the login, which sends it back.
func (in *Inspector) redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if isFragment(r) || r.Method != http.MethodGet || r.URL.Path == "/stream" {
		in.write(w, r, problem(http.StatusUnauthorized, "You are not logged in", "Log in again; the session has ended."))
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
		in.write(w, r, refusal(refused))
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
			in.write(w, r, problem(refused.Status, "Too many attempts", sentence(refused.Message)))
			return
		}
		form.Wrong, status = true, http.StatusUnauthorized
	}
	in.write(w, r, answer{template: "login", status: status, page: page{Title: "Log in", Body: form}})
}

func (in *Inspector) serveLogout(w http.ResponseWriter, r *http.Request) {
	in.serve(func(*http.Request) (answer, error) {
		cookie, err := in.sessions.End(r)
		if err == nil {
			http.SetCookie(w, cookie)
		}
		return answer{to: "/login"}, err
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
