package mockserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// sessionTime is for how long a login lasts.
const sessionTime = 12 * time.Hour

// admit lets those through to next who may use the inspector. The others are
// asked for the token, or told what is wrong.
func (in *Inspector) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refused := in.guard.check(r)
		switch {
		case refused == nil:
		case refused.status != http.StatusUnauthorized:
			in.renderProblem(w, refused.status, "The request was refused", refused.Message)
			return
		case !in.session(r):
			in.askForToken(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admits tells whether admit would let a request through.
func (in *Inspector) admits(r *http.Request) bool {
	refused := in.guard.check(r)
	return refused == nil || refused.status == http.StatusUnauthorized && in.session(r)
}

// askForToken sends a browser to the login, and from there back.
func (in *Inspector) askForToken(w http.ResponseWriter, r *http.Request) {
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
	if refused := in.guard.check(r); refused != nil && refused.status != http.StatusUnauthorized {
		in.renderProblem(w, refused.status, "The request was refused", refused.Message)
		return
	}
	if !readForm(w, r) {
		return
	}
	form := loginForm{To: ownPath(r.Form.Get("to"))}
	status, rules := http.StatusOK, in.guard.rules.Load()
	if rules.open {
		http.Redirect(w, r, form.To, http.StatusSeeOther)
		return
	}
	if r.Method == http.MethodPost {
		refused := in.guard.checkToken(r, "Bearer "+r.PostForm.Get("token"))
		switch {
		case refused == nil:
			http.SetCookie(w, rules.sessionCookie(r, time.Now()))
			http.Redirect(w, r, form.To, http.StatusSeeOther)
			return
		case refused.status == http.StatusTooManyRequests:
			in.renderProblem(w, refused.status, "Too many attempts", sentence(refused.Message))
			return
		}
		form.Wrong, status = true, http.StatusUnauthorized
	}
	in.render(w, status, "login", page{Title: "Log in", Body: form})
}

func (in *Inspector) serveLogout(w http.ResponseWriter, r *http.Request) {
	rules := in.guard.rules.Load()
	if cookie, err := r.Cookie(rules.cookieName()); err == nil {
		if err := in.endSession(r.Context(), cookie.Value); err != nil {
			in.renderError(w, err)
			return
		}
	}
	gone := rules.sessionCookie(r, time.Time{})
	gone.Value, gone.MaxAge = "", -1
	http.SetCookie(w, gone)
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

// session tells whether the request bears the cookie of a login that lasts.
func (in *Inspector) session(r *http.Request) bool {
	rules := in.guard.rules.Load()
	cookie, err := r.Cookie(rules.cookieName())
	if err != nil {
		return false
	}
	until, rest, _ := strings.Cut(cookie.Value, ".")
	id, _, _ := strings.Cut(rest, ".")
	seconds, err := strconv.ParseInt(until, 10, 64)
	if err != nil || time.Now().Unix() >= seconds {
		return false
	}
	if subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(rules.sessionValue(seconds, id))) != 1 {
		return false
	}
	_, _, err = in.c.config.State.Get(r.Context(), endedKey(cookie.Value))
	return err != nil // also where the store does not answer: then above all the pages are needed
}

// A session is not stored while it lasts: the cookie says until when, signed with
// the token. It holds at every replica, and ends when the token changes. What is
// stored is that somebody has logged out, until the session would have run out.

// ended begins the keys of the sessions that were ended.
const ended = "logout"

func endedKey(session string) string { return ended + "." + digest(session) }

// endSession has a session hold nowhere any more, and forgets those that have run
// out.
func (in *Inspector) endSession(ctx context.Context, session string) error {
	state := in.c.config.State
	keys, err := state.Keys(ctx, ended)
	if err != nil {
		return err
	}
	for _, key := range keys {
		until, _, err := state.Get(ctx, key)
		if seconds, _ := strconv.ParseInt(string(until), 10, 64); err == nil && time.Now().Unix() >= seconds {
			err = state.Delete(ctx, key)
		}
		if err != nil && !errors.Is(err, ErrNoState) {
			return err
		}
	}
	until, _, _ := strings.Cut(session, ".")
	return state.Put(ctx, endedKey(session), []byte(until))
}

func (r *guardRules) sessionCookie(req *http.Request, now time.Time) *http.Cookie {
	return &http.Cookie{
		Name: r.cookieName(), Value: r.sessionValue(now.Add(sessionTime).Unix(), rand.Text()), Path: "/",
		MaxAge: int(sessionTime / time.Second), HttpOnly: true, Secure: r.isHTTPS(req), SameSite: http.SameSiteStrictMode,
	}
}

func (r *guardRules) sessionValue(until int64, id string) string {
	session := fmt.Sprintf("%d.%s", until, id)
	return session + "." + r.mac("session until "+session)
}

// cookieName keeps apart the collectors on the ports of one machine, which share
// their cookies.
func (r *guardRules) cookieName() string { return "collector_" + r.mac("name")[:8] }

func (r *guardRules) mac(text string) string {
	mac := hmac.New(sha256.New, r.token[:])
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// renderProblem answers with a page that says what is wrong.
func (in *Inspector) renderProblem(w http.ResponseWriter, status int, title, text string) {
	in.render(w, status, "problem", page{Title: title, Body: text})
}

// renderError answers with what an error of the collector means.
func (in *Inspector) renderError(w http.ResponseWriter, err error) {
	var refused *adminError
	if refused = adminErrorOf(err); refused.status >= http.StatusInternalServerError && !errors.Is(err, ErrClosed) {
		in.c.log.Error("the inspector cannot answer", "error", err)
	}
	in.renderProblem(w, refused.status, "That did not work", sentence(refused.Message))
}
