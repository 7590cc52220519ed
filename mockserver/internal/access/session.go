package access

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
	"strconv"
	"strings"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/state"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
)

// sessionTime is the duration of a session.
const sessionTime = 12 * time.Hour

// endedSession is the prefix of the keys of ended sessions.
const endedSession = "logout"

// Sessions manages logins in browsers. Active sessions are not stored: the cookie contains the expiry
// time, signed with the token. A session is therefore valid at every replica, and invalid after the
// token changes. Ended sessions are stored until they expire.
type Sessions struct {
	Guard *Guard
	State state.Store // stores ended sessions
}

// Start returns the cookie of a new session.
func (s Sessions) Start(r *http.Request) *http.Cookie {
	rules := s.Guard.rules.Load()
	return rules.sessionCookie(r, rules.sessionValue(time.Now().Add(sessionTime).Unix(), rand.Text()), int(sessionTime/time.Second))
}

// Has reports whether a request has a valid session.
func (s Sessions) Has(r *http.Request) bool {
	rules := s.Guard.rules.Load()
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
	_, _, err = s.State.Get(r.Context(), endedKey(cookie.Value))
	return err != nil // if the store fails, the session is valid, because operators need the pages then
}

// End ends the session of a request. It returns a cookie that deletes the cookie of the session.
func (s Sessions) End(r *http.Request) (*http.Cookie, error) {
	rules := s.Guard.rules.Load()
	if cookie, err := r.Cookie(rules.cookieName()); err == nil && s.Has(r) {
		if err := s.storeEnd(r.Context(), cookie.Value); err != nil {
			return nil, err
		}
	}
	return rules.sessionCookie(r, "", -1), nil
}

// storeEnd stores the end of a session, and deletes expired entries.
func (s Sessions) storeEnd(ctx context.Context, session string) error {
	keys, err := s.State.Keys(ctx, endedSession)
	if err != nil {
		return err
	}
	for _, key := range keys {
		until, _, err := s.State.Get(ctx, key)
		if seconds, _ := strconv.ParseInt(string(until), 10, 64); err == nil && time.Now().Unix() >= seconds {
			err = s.State.Delete(ctx, key)
		}
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
	}
	until, _, _ := strings.Cut(session, ".")
	return s.State.Put(ctx, endedKey(session), []byte(until))
}

func endedKey(session string) string { return endedSession + "." + text.Digest(session) }

func (r *guardRules) sessionCookie(req *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: r.cookieName(), Value: value, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: r.isHTTPS(req), SameSite: http.SameSiteStrictMode,
	}
}

func (r *guardRules) sessionValue(until int64, id string) string {
	session := fmt.Sprintf("%d.%s", until, id)
	return session + "." + r.mac("session until "+session)
}

// cookieName returns the name of the cookie. The name depends on the token, because browsers send
// cookies to all ports of a host, where different collectors may listen.
func (r *guardRules) cookieName() string { return "collector_" + r.mac("name")[:8] }

func (r *guardRules) mac(text string) string {
	mac := hmac.New(sha256.New, r.token[:])
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}
