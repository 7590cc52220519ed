package page

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A Handler finds the answer to a request that may use the inspector.
type Handler func(*http.Request) (Answer, error)

// An Answer is a page, a part of one, or where the browser is sent.
type Answer struct {
	Page
	Template string // the name of its file
	Part     string // the block that a script asked for; empty: the whole page
	Status   int    // defaults to 200
	To       string // where the browser is sent instead; the page there shows Notice
}

// A Page is what the layout needs.
type Page struct {
	Title  string
	Nav    string // the entry of the navigation that it belongs to
	Notice string // what was just done
	Body   any
	Logout bool // there is a login, and so a way out
}

// OrPart answers a script of the page with a block alone, which is given Body.
func (a Answer) OrPart(r *http.Request, block string) Answer {
	if IsFragment(r) {
		a.Part = block
	}
	return a
}

// IsFragment reports whether a request comes from a script of the page, which wants only a part of it.
func IsFragment(r *http.Request) bool { return r.Header.Get("X-Fragment") != "" }

// Problem is a page that says what is wrong.
func Problem(status int, title, text string) Answer {
	return Answer{Template: "problem", Status: status, Page: Page{Title: title, Body: text}}
}

// SendTo sends the browser from a form to a page, which then says what was done.
func SendTo(target, done string) (Answer, error) {
	return Answer{To: target, Page: Page{Notice: done}}, nil
}

// Serve answers by a handler, or with what its error means.
func (s *Server) Serve(handle Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := handle(r)
		if err != nil {
			refused := access.ErrorOf(err)
			if refused.Status >= http.StatusInternalServerError && !errors.Is(err, state.ErrClosed) {
				s.Log.Error("inspector request failed", "error", err)
			}
			a = Problem(refused.Status, "Error", Sentence(refused.Message))
		}
		s.Write(w, r, a)
	}
}

// ServeForm is Serve of a posted form.
func (s *Server) ServeForm(handle Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if readForm(w, r) {
			s.Serve(handle)(w, r)
		}
	}
}

// maxForm bounds a form, in bytes.
const maxForm = 1 << 20

// readForm reads a posted form, or answers that it cannot be read.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "Invalid form: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// Write writes an answer.
func (s *Server) Write(w http.ResponseWriter, r *http.Request, a Answer) {
	block, data := a.Part, a.Body
	switch {
	case a.To != "":
		if a.Notice != "" {
			s.setNotice(w, r, a.Notice)
		}
		http.Redirect(w, r, a.To, http.StatusSeeOther)
		return
	case block == "":
		block = "layout"
		a.Logout = !s.Guard.IsOpen() && a.Template != "login"
		a.Notice = takeNotice(w, r)
		data = a.Page
	}
	var out bytes.Buffer
	SecureHeaders(w.Header())
	if err := pages()[a.Template].ExecuteTemplate(&out, block, data); err != nil {
		s.Log.Error("cannot render inspector page", "page", a.Template, "error", err)
		http.Error(w, "Cannot render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(max(a.Status, http.StatusOK))
	_, _ = w.Write(out.Bytes()) // a browser that is gone gets no page
}

// noticeCookie holds what a form did until the next page shows it. Only this server
// can set it, so no link can make a notice up.
const noticeCookie = "notice"

func (s *Server) setNotice(w http.ResponseWriter, r *http.Request, text string) {
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: url.QueryEscape(text), Path: "/",
		HttpOnly: true, Secure: s.Guard.IsHTTPS(r), SameSite: http.SameSiteStrictMode,
	})
}

// takeNotice returns the notice that a request brings, once.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/", MaxAge: -1})
	text, _ := url.QueryUnescape(cookie.Value) // another server's, perhaps
	return text
}
