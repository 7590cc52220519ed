// Command picture draws what collector dev shows on a terminal, as it is: it runs the command
// on a terminal without a window, sends calls, presses keys, and writes what would be seen.
//
//	picture DIRECTORY
//
// makes terminal-light.svg and terminal-dark.svg there.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/cli"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/screen"
)

const width, height = 104, 22

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: picture DIRECTORY")
	}
	if err := draw(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func draw(dir string) error {
	cells, err := sit()
	if err != nil {
		return err
	}
	for _, t := range []theme{light, dark} {
		file := filepath.Join(dir, "terminal-"+t.name+".svg")
		if err := os.WriteFile(file, []byte(t.svg(cells)), 0o644); err != nil { //nolint:gosec // everybody may see it
			return err
		}
	}
	return nil
}

// sit runs collector dev on a terminal, and returns what is seen in the end.
func sit() ([][]screen.Cell, error) {
	data, err := os.MkdirTemp("", "picture")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(data) }()
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	receiver := &http.Server{Handler: http.HandlerFunc(receive), ReadHeaderTimeout: time.Minute}
	go func() { _ = receiver.Serve(on) }()
	defer func() { _ = receiver.Close() }()
	url := "http://" + on.Addr().String()
	keys, tty, err := pty.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = keys.Close(), tty.Close() }()
	if err := pty.Setsize(keys, &pty.Winsize{Cols: width, Rows: height}); err != nil {
		return nil, err
	}
	seen := screen.New(width, height)
	defer func() { _ = seen.Close() }()
	go func() { _, _ = io.Copy(seen, keys) }() // until the terminal is closed
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = os.Setenv("TERM", "xterm-256color")
	_ = os.Unsetenv("NO_COLOR")
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Main(ctx, []string{
			"dev", "--listen", "127.0.0.1:0", "--data", data,
			"--forward", "crm=" + url + "/crm", "--forward", "mail=" + url + "/mail",
		}, tty, tty, tty)
	}()
	if err := act(ctx, seen, keys); err != nil {
		return nil, fmt.Errorf("%w; the screen is\n%s", err, seen)
	}
	cells := seen.Cells()
	cancel()
	<-ended
	return cells, nil
}

// receive is a receiver that does not know coupons, and is busy once.
func receive(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what came is enough
	switch {
	case r.URL.Path == "/crm" && strings.Contains(string(body), "couponCode"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"unknown field: couponCode"}`)
	case r.URL.Path == "/mail" && strings.Contains(string(body), "Checkout Started") && r.Header.Get("X-Attempt") == "1":
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "busy, come back in a moment")
	}
}

// calls are those of the picture, and what each has the screen show.
var calls = []struct{ path, body, shows string }{
	{"identify", `{"userId":"ada","traits":{"plan":"Pro"}}`, "identify ada → mail 200"},
	{"page", `{"userId":"ada","name":"Pricing"}`, "Pricing ada → mail 200"},
	{"track", `{"userId":"ada","event":"Signed Up","properties":{"plan":"Pro","couponCode":"X1"}}`, `Signed Up ada → crm 400`},
	{"track", `{"event":"Checkout Started","properties":{"total":12.5}}`, "no_user_anon_id"},
	{"track", `{"userId":"grace","event":"Checkout Started","properties":{"total":12.5}}`, "Checkout Started grace → mail 503"},
	{"track", `{"userId":"Łukasz","event":"Order Completed","properties":{"total":99}}`, "Order Completed Łukasz → mail 200"},
}

// act sends the calls, and selects the one that was not taken.
func act(ctx context.Context, seen *screen.Screen, keys io.Writer) error {
	var url string
	said := regexp.MustCompile(`Send calls to +(http://[0-9.:]+)`)
	err := await(ctx, seen, "where to send calls to", func() bool {
		if found := said.FindStringSubmatch(seen.Written()); found != nil {
			url = found[1]
		}
		return url != "" && strings.Contains(seen.String(), "waiting for calls")
	})
	for _, c := range calls {
		if err == nil {
			err = send(ctx, url+"/v1/"+c.path, c.body)
		}
		if err == nil {
			err = await(ctx, seen, c.shows, func() bool { return strings.Contains(seen.String(), c.shows) })
		}
	}
	if err == nil {
		err = await(ctx, seen, "the second attempt", func() bool { return strings.Contains(seen.String(), "attempt 2") })
	}
	selected := regexp.MustCompile(`(?m)^▸ .*→ crm 400`)
	for range height {
		if err != nil || selected.MatchString(seen.String()) {
			break
		}
		before := seen.String()
		if _, err = io.WriteString(keys, "\x1b[A"); err == nil {
			err = cmp.Or(await(ctx, seen, "another selected line", func() bool { return seen.String() != before }), settle(ctx, seen))
		}
	}
	if err == nil {
		err = settle(ctx, seen)
	}
	return err
}

// settle waits until nothing more is drawn: a picture is written in several pieces.
func settle(ctx context.Context, seen *screen.Screen) error {
	for {
		select {
		case <-seen.Changed():
		case <-time.After(500 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func send(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.SetBasicAuth("shop", "")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// await waits until the screen is as wanted.
func await(ctx context.Context, seen *screen.Screen, what string, done func() bool) error {
	for {
		changed := seen.Changed()
		if done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.New("the screen does not show " + what)
		}
	}
}
