//go:build unix

package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/live"
)

// A sitting is a command that runs in a terminal.
type sitting struct {
	t      *testing.T
	keys   *os.File // keyboard input
	tty    *os.File
	screen *screen
	before *term.State
	code   chan int
	cancel context.CancelFunc
}

// raceDetector is true if the race detector is enabled.
var raceDetector bool

// sit runs a command in a terminal.
func sit(t *testing.T, width, height int, args ...string) *sitting {
	t.Helper()
	if raceDetector {
		t.Skip("Bubble Tea waits half a second for the reader of its input, and then closes it: a race where that is not enough")
	}
	keys, tty, err := pty.Open()
	require.NoError(t, err)
	s := &sitting{t: t, keys: keys, tty: tty, screen: newScreen(width, height), code: make(chan int, 1)}
	require.NoError(t, pty.Setsize(keys, &pty.Winsize{Cols: uint16(width), Rows: uint16(height)}))
	s.before, err = term.GetState(tty.Fd())
	require.NoError(t, err)
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(s.screen, keys) // until the terminal is closed
		close(read)
	}()
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.code <- Main(ctx, args, tty, tty, tty)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = tty.Close()
		_ = keys.Close()
		<-read
		_ = s.screen.Close()
	})
	return s
}

// sees waits until the screen contains text.
func (s *sitting) sees(text string) {
	s.t.Helper()
	s.await(text, func() bool { return strings.Contains(s.screen.String(), text) })
}

// shows waits until a line of the screen matches a pattern.
func (s *sitting) shows(pattern string) {
	s.t.Helper()
	line := regexp.MustCompile(pattern)
	s.await(pattern, func() bool { return line.MatchString(s.screen.String()) })
}

// waits is a timeout far above the usual duration.
const waits = 30 * time.Second

func (s *sitting) await(what string, done func() bool) {
	s.t.Helper()
	deadline := time.After(waits)
	for {
		changed := s.screen.Changed()
		if done() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			require.FailNow(s.t, "it does not show", "%s\n%s", what, s.screen.String())
		}
	}
}

func (s *sitting) types(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.keys, keys)
	require.NoError(s.t, err)
}

// ends waits until the command has ended and restored the terminal.
func (s *sitting) ends(code int) {
	s.t.Helper()
	select {
	case got := <-s.code:
		assert.Equal(s.t, code, got)
	case <-time.After(waits):
		require.FailNow(s.t, "it does not end", s.screen.String())
	}
	s.await("the main screen", s.screen.Restored)
	now, err := term.GetState(s.tty.Fd())
	require.NoError(s.t, err)
	assert.Equal(s.t, s.before, now, "the terminal is as it was")
}

// address waits for the welcome message and returns its address.
func (s *sitting) address() (url string) {
	s.t.Helper()
	said := regexp.MustCompile(`Send calls to +(http://[0-9.:]+)`)
	s.await("the welcome", func() bool {
		if found := said.FindStringSubmatch(s.screen.Written()); found != nil {
			url = found[1]
		}
		return url != ""
	})
	return url
}

// couponReceiver rejects one event and counts requests.
func couponReceiver(t *testing.T) (url string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "Signed Up") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"unknown field: couponCode"}`)
		}
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, requests
}

func post(t *testing.T, url, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.SetBasicAuth("shop", "")
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
}

// devOnATerminal runs collector dev with a receiver.
func devOnATerminal(t *testing.T, width, height int, more ...string) (s *sitting, url string, requests *atomic.Int64) {
	t.Helper()
	receiver, requests := couponReceiver(t)
	args := append([]string{"dev", "--listen", "127.0.0.1:0", "--data", t.TempDir(), "--forward", "crm=" + receiver}, more...)
	s = sit(t, width, height, args...)
	return s, s.address(), requests
}

func drawable(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "")
}

func TestDevTerminalUI(t *testing.T) {
	drawable(t)
	s, url, requests := devOnATerminal(t, 100, 24)
	s.sees("waiting for calls at " + url)
	s.sees("↑↓ select  Enter details  ? help  q quit  r replay")
	post(t, url+"/v1/track", `{"event":"Signed Up","userId":"ada"}`)
	s.shows(`400 +\S+ +track Signed Up +ada +→ crm "unknown field`)
	s.sees("calls failed permanently") // logged when the failure is stored
	post(t, url+"/v1/track", `{"event":"Nobody"}`)
	s.shows("rejected +\\S+ +track Nobody +no_user_anon_id: a call")
	s.types("\x1b[A")
	s.sees("▸ ")
	s.sees("userId for a known user, or anonymousId") // the details show the full line
	s.sees("Selected (Esc to resume)")
	s.types("r")
	s.sees("a rejected call cannot be replayed: correct it and send it again")
	s.types("c")
	s.sees("-u shop:") // the write key of the request
	s.types("x")
	s.await("the list", func() bool { return !strings.Contains(s.screen.String(), "-u shop:") })

	s.types("/couponCode\r\x1b[A")
	s.sees("only couponCode")
	s.types("\r")
	s.shows("failed +crm +400 Bad Request")
	s.sees(`  {"error":"unknown field: couponCode"}`)
	s.shows(`1 +crm +[0-9:.]+ +[0-9.]+ ms +permanent +http://127\S+ +responded with 400`)
	s.types("\x1b[F") // End
	s.sees(`"event": "Signed Up"`)
	s.types("\x1b")
	s.sees("only couponCode")
	s.await("the list", func() bool { return !strings.Contains(s.screen.String(), `"event": "Signed Up"`) })
	s.await("only the attempt", func() bool { return !strings.Contains(s.screen.String(), "no_user_anon_id") })
	before := requests.Load()
	s.types("r")
	s.sees("replay to crm: Enter confirms")
	s.types("x")
	s.sees("not replayed")
	s.types("r")
	s.sees("replay to crm: Enter confirms")
	s.types("\r")
	s.sees("replay queued for crm")
	s.types("r")
	s.sees("replay to crm: Enter confirms")
	s.types("\r")
	s.sees("replayed within the last 10 seconds")
	s.types("\x1b")
	s.sees("collector dev  live")
	s.await("a second attempt", func() bool { return strings.Count(s.screen.String(), `→ crm "unknown`) >= 2 })
	assert.Greater(t, requests.Load(), before)

	s.types("/→ crm\r\x1b[A") // log lines do not match
	s.sees("only → crm")
	s.types("c")
	s.sees("--data-raw")
	var copied [][]string
	s.await("a second copy", func() bool { // the request can arrive after the panel is shown
		copied = regexp.MustCompile("\x1b]52;c;([^\x07]+)\x07").FindAllStringSubmatch(s.screen.Written(), -1)
		return len(copied) == 2
	})
	command, err := base64.StdEncoding.DecodeString(copied[1][1])
	require.NoError(t, err)
	assert.Regexp(t, `(?s)^curl -g http://127.0.0.1:\d+ .*-H 'X-Message-Id: [^']+'.* --data-raw '\{.*"event":"Signed Up".*\}'$`, string(command))
	s.types("x")
	s.await("the list", func() bool { return !strings.Contains(s.screen.String(), "--data-raw") })
	s.types("?")
	s.sees("copy it as a curl command")
	s.types("x")
	s.await("the list", func() bool { return !strings.Contains(s.screen.String(), "copy it as a curl command") })
	s.types("\x1b")
	s.sees("collector dev  live")

	s.types("p")
	s.sees("paused")
	post(t, url+"/v1/track", `{"event":"Later","userId":"ada"}`)
	s.sees("newer")
	assert.NotContains(t, s.screen.String(), "Later")
	s.types("p")
	s.shows("200 +\\S+ +track Later +ada +→ crm")

	s.shows("1 delivered +1 failed +│ +crm failing +1 failed")
	s.screen.Resize(60, 12)
	require.NoError(t, pty.Setsize(s.keys, &pty.Winsize{Cols: 60, Rows: 12}))
	s.signalResize()
	s.shows("200 +\\S+ +track Later +ada +→ crm")
	s.types("q")
	s.ends(0)
	assert.Contains(t, s.screen.String(), "Send calls to", "the welcome stays")
}

func TestDevTerminalUIEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(s *sitting)
	}{
		{"by Ctrl-C", func(s *sitting) { s.types("\x03") }},
		{"by a signal", func(s *sitting) { s.cancel() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			drawable(t)
			s, url, _ := devOnATerminal(t, 80, 24)
			s.sees("waiting for calls at " + url)
			c.end(s)
			s.ends(0)
		})
	}
}

func TestDevWithoutColors(t *testing.T) {
	drawable(t)
	t.Setenv("NO_COLOR", "1")
	s, url, _ := devOnATerminal(t, 100, 24)
	s.sees("waiting for calls at " + url)
	post(t, url+"/v1/track", `{"event":"Signed Up","userId":"ada"}`)
	s.shows("400 .*ada +→ crm")
	s.types("q")
	s.ends(0)
	assert.NotRegexp(t, "\x1b\\[[0-9;]*3[0-7]m", s.screen.Written())
}

func TestDevPrintsLinesOnADumbTerminal(t *testing.T) {
	drawable(t)
	t.Setenv("TERM", "dumb")
	s, url, _ := devOnATerminal(t, 200, 24)
	post(t, url+"/v1/track", `{"event":"Signed Up","userId":"ada"}`)
	s.shows(`400 +\S+ +track Signed Up +ada +→ crm "unknown field: couponCode"`)
	s.cancel()
	s.ends(0)
	assert.NotContains(t, s.screen.Written(), "\x1b")
}

func TestDevQuiet(t *testing.T) {
	drawable(t)
	s, url, requests := devOnATerminal(t, 100, 30, "--quiet")
	post(t, url+"/v1/track", `{"event":"Other","userId":"ada"}`)
	require.Eventually(t, func() bool { return requests.Load() > 0 }, waits, time.Millisecond)
	s.cancel()
	s.ends(0)
	assert.NotContains(t, s.screen.Written(), "ada")
}

func TestControlCharactersOfSendersAreRemoved(t *testing.T) {
	for _, kind := range []string{"xterm-256color", "dumb"} {
		for _, form := range []string{"--quiet=false", "--json"} {
			t.Run(kind+" "+form, func(t *testing.T) {
				drawable(t)
				t.Setenv("TERM", kind)
				s, url, _ := devOnATerminal(t, 200, 24, form)
				post(t, url+"/v1/track", `{"event":"a\u001b]0;title\u0007\u009b31m\u202eb","userId":"\u001b[2Jada","messageId":"done"}`)
				post(t, url+"/v1/track", `{"event":"a\u001b[2J"}`)
				post(t, url+"/v1/track", `{"event":"The Last","userId":"ada"}`)
				s.await("all of them", func() bool { return strings.Contains(s.screen.Written(), "The Last") })
				s.cancel()
				s.ends(0)
				for _, never := range []string{"\x1b]0;", "title\x07", "\u009b", "\u202e", "\x1b[2Jada", "a\x1b[2J"} {
					assert.NotContains(t, s.screen.Written(), never)
				}
			})
		}
	}
}

// panics is a Source that panics.
type panics struct{}

func (panics) Activity(context.Context, string, int, bool) (live.Page, error) { panic("a mistake") }
func (panics) Replay(context.Context, live.Activity) (string, error)          { return "", errors.New("no") }
func (panics) Curl(context.Context, live.Activity) (string, error)            { return "", errors.New("no") }
func (panics) Destinations(context.Context) ([]live.Destination, error)       { return nil, errors.New("no") }
func (panics) Details(context.Context, live.Activity) (string, error)         { return "", errors.New("no") }

func TestPanicRestoresTheTerminal(t *testing.T) {
	if raceDetector {
		t.Skip("after a panic, Bubble Tea closes its input while that is being read: a race")
	}
	t.Setenv("TERM", "xterm-256color")
	keys, tty, err := pty.Open()
	require.NoError(t, err)
	require.NoError(t, pty.Setsize(keys, &pty.Winsize{Cols: 80, Rows: 24}))
	seen, read := newScreen(80, 24), make(chan struct{})
	defer func() { assert.NoError(t, seen.Close()) }()
	go func() {
		_, _ = io.Copy(seen, keys) // until the terminal is closed
		close(read)
	}()
	before, err := term.GetState(tty.Fd())
	require.NoError(t, err)
	assert.Error(t, live.Show(t.Context(), live.Config{Source: panics{}, In: tty, Out: tty}))
	after, err := term.GetState(tty.Fd())
	require.NoError(t, err)
	assert.Equal(t, before, after)
	require.NoError(t, tty.Close())
	<-read
	require.NoError(t, keys.Close())
	assert.True(t, seen.Restored())
}

// signalResize sends SIGWINCH to the program. The kernel does not, because the terminal does
// not control the session of the test.
func (s *sitting) signalResize() {
	s.t.Helper()
	self, err := os.FindProcess(os.Getpid())
	require.NoError(s.t, err)
	require.NoError(s.t, self.Signal(syscall.SIGWINCH))
}
