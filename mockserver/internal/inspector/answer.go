package inspector

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A handler finds the answer to a request that may use the inspector.
type handler func(*http.Request) (answer, error)

// An answer is a page, a part of one, or where the browser is sent.
type answer struct {
	page
	template string // the name of its file
	part     string // the block that a script asked for; empty: the whole page
	status   int    // defaults to 200
	to       string // where the browser is sent instead; the page there shows Notice
}

// A page is what the layout needs.
type page struct {
	Title  string
	Nav    string // the entry of the navigation that it belongs to
	Notice string // what was just done
	Body   any
	Logout bool // there is a login, and so a way out
}

// orPart answers a script of the page with a block alone, which is given Body.
func (a answer) orPart(r *http.Request, block string) answer {
	if isFragment(r) {
		a.part = block
	}
	return a
}

// isFragment reports whether a request comes from a script of the page, which wants only a part of it.
func isFragment(r *http.Request) bool { return r.Header.Get("X-Fragment") != "" }

// problem is a page that says what is wrong.
func problem(status int, title, text string) answer {
	return answer{template: "problem", status: status, page: page{Title: title, Body: text}}
}

// sendTo sends the browser from a form to a page, which then says what was done.
func sendTo(target, done string) (answer, error) {
	return answer{to: target, page: page{Notice: done}}, nil
}

// serve answers by a handler, or with what its error means.
func (in *Inspector) serve(handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := handle(r)
		if err != nil {
			refused := access.ErrorOf(err)
			if refused.Status >= http.StatusInternalServerError && !errors.Is(err, state.ErrClosed) {
				in.c.Logger().Error("the inspector cannot answer", "error", err)
			}
			a = problem(refused.Status, "That did not work", sentence(refused.Message))
		}
		in.write(w, r, a)
	}
}

// serveForm is serve of a posted form.
func (in *Inspector) serveForm(handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if readForm(w, r) {
			in.serve(handle)(w, r)
		}
	}
}

// maxForm bounds a form, in bytes.
const maxForm = 1 << 20

// readForm reads a posted form, or answers that it cannot be read.
func readForm(w http.ResponseWriter, r *http.Request) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "The form cannot be read: "+err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// write writes an answer.
func (in *Inspector) write(w http.ResponseWriter, r *http.Request, a answer) {
	block, data := a.part, a.Body
	switch {
	case a.to != "":
		if a.Notice != "" {
			in.setNotice(w, r, a.Notice)
		}
		http.Redirect(w, r, a.to, http.StatusSeeOther)
		return
	case block == "":
		block = "layout"
		a.Logout = !in.guard.IsOpen() && a.template != "login"
		a.Notice = takeNotice(w, r)
		data = a.page
	}
	var out bytes.Buffer
	secureHeaders(w.Header())
	if err := inspectorPages()[a.template].ExecuteTemplate(&out, block, data); err != nil {
		in.c.Logger().Error("a page of the inspector cannot be rendered", "page", a.template, "error", err)
		http.Error(w, "The page cannot be rendered: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = w.Write(out.Bytes()) // a browser that is gone gets no page
}

// noticeCookie holds what a form did until the next page shows it. Only this server
// can set it, so no link can make a notice up.
const noticeCookie = "notice"

func (in *Inspector) setNotice(w http.ResponseWriter, r *http.Request, text string) {
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: url.QueryEscape(text), Path: "/",
		HttpOnly: true, Secure: in.guard.IsHTTPS(r), SameSite: http.SameSiteStrictMode,
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
