package page

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
)

// A Handler returns the response to an authorized request.
type Handler func(*http.Request) (Response, error)

// A Response is a page, a block of a page, or a redirect.
type Response struct {
	Page
	Template string // name of the template file
	Part     string // block to render for a script; empty for the whole page
	Status   int    // defaults to 200
	To       string // redirect target; the target page shows Notice
}

// A Page contains the values for the layout template.
type Page struct {
	Title  string
	Nav    string // active navigation entry
	Notice string // result of the last action
	Body   any
	Logout bool // show a logout button
}

// OrPart restricts the response to a block if a script sent the request. The block is rendered
// with Body.
func (res Response) OrPart(r *http.Request, block string) Response {
	if IsFragment(r) {
		res.Part = block
	}
	return res
}

// IsFragment reports whether a script requests a part of a page.
func IsFragment(r *http.Request) bool { return r.Header.Get("X-Fragment") != "" }

// Problem returns an error page.
func Problem(status int, title, text string) Response {
	return Response{Template: "problem", Status: status, Page: Page{Title: title, Body: text}}
}

// SendTo returns a redirect to a page, which shows done as a notice.
func SendTo(target, done string) (Response, error) {
	return Response{To: target, Page: Page{Notice: done}}, nil
}

// Link returns a path with parameters, which are pairs of names and values. It omits empty values.
func Link(path string, parameters ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(parameters); i += 2 {
		if parameters[i+1] != "" {
			q.Add(parameters[i], parameters[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// Serve returns a handler that renders the result or the error of handle.
func (s *Server) Serve(handle Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		res, err := handle(r)
		if err != nil {
			if access.IsFailure(r, err) && !errors.Is(err, state.ErrClosed) {
				s.Log.Error("inspector request failed", "error", err)
			}
			refused := access.ErrorOf(err)
			res = Problem(refused.Status, "Error", Sentence(refused.Message))
		}
		s.Write(w, r, res)
	}
}

// ServeForm is like Serve, but parses the submitted form first.
func (s *Server) ServeForm(handle Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.Serve(func(r *http.Request) (Response, error) {
			if err := readForm(w, r); err != nil {
				return Response{}, err
			}
			return handle(r)
		})(w, r)
	}
}

// maxForm limits the size of a form, in bytes.
const maxForm = 1 << 20

// readForm parses a form.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	err := r.ParseForm()
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case errors.As(err, &tooLarge):
		return access.Errorf(http.StatusRequestEntityTooLarge, "too_large", "the form is larger than 1 MB; go back and shorten it")
	case err != nil:
		return access.Errorf(http.StatusBadRequest, "invalid", "the form cannot be read: %v", err)
	}
	return nil
}

// Write renders a response, or redirects to its target.
func (s *Server) Write(w http.ResponseWriter, r *http.Request, res Response) {
	block, data := res.Part, res.Body
	switch {
	case res.To != "":
		if res.Notice != "" {
			s.setNotice(w, r, res.Notice)
		}
		http.Redirect(w, r, res.To, http.StatusSeeOther)
		return
	case block == "" && IsFragment(r): // an error page, without the layout
		block, data = "main", res.Page
	case block == "":
		block = "layout"
		res.Logout = !s.Guard.IsOpen() && res.Template != "login"
		res.Notice = takeNotice(w, r)
		data = res.Page
	}
	var out bytes.Buffer
	SecureHeaders(w.Header())
	if err := pages()[res.Template].ExecuteTemplate(&out, block, data); err != nil {
		s.Log.Error("cannot render inspector page", "page", res.Template, "error", err)
		http.Error(w, "Cannot render the page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	access.WriteBody(w, r, max(res.Status, http.StatusOK), out.Bytes())
}

// noticeCookie stores the result of a form for the next page. If the URL contained the result,
// links could forge notices.
const noticeCookie = "notice"

func (s *Server) setNotice(w http.ResponseWriter, r *http.Request, text string) {
	http.SetCookie(w, &http.Cookie{
		Name: noticeCookie, Value: url.QueryEscape(text), Path: "/",
		HttpOnly: true, Secure: s.Guard.IsHTTPS(r), SameSite: http.SameSiteStrictMode,
	})
}

// takeNotice returns the notice of a request and deletes its cookie.
func takeNotice(w http.ResponseWriter, r *http.Request) string {
	cookie, err := r.Cookie(noticeCookie)
	if err != nil {
		return ""
	}
	http.SetCookie(w, &http.Cookie{Name: noticeCookie, Path: "/", MaxAge: -1})
	text, _ := url.QueryUnescape(cookie.Value) // another server on this host may have set an invalid value
	return text
}
