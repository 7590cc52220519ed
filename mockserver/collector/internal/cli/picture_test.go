//go:build unix

package cli

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestScreenshots writes screenshots of collector dev to the directory PICTURES.
func TestScreenshots(t *testing.T) {
	drawable(t)
	require.NoError(t, os.Unsetenv("NO_COLOR"))
	receiver := httptest.NewServer(http.HandlerFunc(receiveForPicture))
	defer receiver.Close()
	const width, height = 104, 22
	s := sit(t, width, height, "dev", "--listen", "127.0.0.1:0", "--data", t.TempDir(),
		"--forward", "crm="+receiver.URL+"/crm", "--forward", "mail="+receiver.URL+"/mail")
	url := s.address()
	s.sees("waiting for calls")
	for _, c := range []struct{ path, body, shows string }{
		{"identify", `{"userId":"ada","traits":{"plan":"Pro"}}`, "200 +\\S+ +identify +ada +→ mail"},
		{"page", `{"userId":"ada","name":"Pricing"}`, "200 +\\S+ +page Pricing +ada +→ mail"},
		{"track", `{"userId":"ada","event":"Signed Up","properties":{"plan":"Pro","couponCode":"X1"}}`, `400 +\S+ +track Signed Up +ada +→ crm`},
		{"track", `{"event":"Checkout Started","properties":{"total":12.5}}`, "no_user_anon_id"},
		{"track", `{"userId":"grace","event":"Checkout Started","properties":{"total":12.5}}`, "503 +\\S+ +track Checkout Star.* +grace +→ mail"},
		{"track", `{"userId":"Łukasz","event":"Order Completed","properties":{"total":99}}`, "200 +\\S+ +track Order Complet.* +Łukasz +→ mail"},
	} {
		post(t, url+"/v1/"+c.path, c.body)
		s.shows(c.shows)
	}
	s.sees("attempt 2")
	selected := regexp.MustCompile(`(?m)^▸ 400 .*→ crm`)
	for !selected.MatchString(s.screen.String()) {
		before := s.screen.String()
		s.types("\x1b[A")
		s.await("another selected line", func() bool { return s.screen.String() != before })
		s.settles()
	}
	s.settles()
	dir := cmp.Or(os.Getenv("PICTURES"), t.TempDir())
	for _, theme := range []theme{light, dark} {
		picture := theme.svg(s.screen.Cells())
		require.Contains(t, picture, "couponCode")
		require.Contains(t, picture, theme.background)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "terminal-"+theme.name+".svg"), []byte(picture), 0o644))
	}
}

// receiveForPicture rejects events with coupons, and the first attempt for mail.
func receiveForPicture(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch {
	case r.URL.Path == "/crm" && strings.Contains(string(body), "couponCode"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"unknown field: couponCode"}`)
	case r.URL.Path == "/mail" && strings.Contains(string(body), "Checkout Started") && r.Header.Get("X-Attempt") == "1":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy, come back in a moment")
	}
}

// settles waits until the screen has not changed for half a second.
func (s *sitting) settles() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), waits)
	defer cancel()
	for {
		select {
		case <-s.screen.Changed():
		case <-time.After(500 * time.Millisecond):
			return
		case <-ctx.Done():
			require.FailNow(s.t, "the screen keeps changing")
		}
	}
}
