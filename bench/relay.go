package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// startRelay starts a relay and waits until it listens. args are the URL of a webhook and the path of
// a file, or empty.
func startRelay(args ...string) (p *harness.Process, url string, err error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	if p, err = self("relay", append([]string{address}, args...)...); err != nil {
		return nil, "", err
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return p, "http://" + address, conn.Close()
		}
		if time.Now().After(deadline) {
			p.Kill()
			return nil, "", err
		}
	}
}

// runRelay runs a relay that listens on an address.
func runRelay(args []string) (err error) {
	l := &relay{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: webhook.Timeout}}
	if len(args) == 3 {
		l.to = args[1]
		if l.file, err = os.Create(args[2]); err != nil {
			return err
		}
	}
	server := &http.Server{Addr: args[0], ReadHeaderTimeout: time.Second, Handler: l}
	return server.ListenAndServe()
}

// A relay does only the minimum work of a collector: it writes each request to a file, syncs the
// file, responds, and posts the request to a webhook. Without a file it discards requests.
type relay struct {
	to     string
	client *http.Client

	mu   sync.Mutex // guards file
	file *os.File
}

func (l *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.file == nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"success": true}`)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = l.store(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, `{"success": true}`)
	go l.post(body)
}

func (l *relay) store(body []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.file.Write(body)
	return errors.Join(err, l.file.Sync())
}

func (l *relay) post(body []byte) {
	req, err := http.NewRequest(http.MethodPost, l.to, bytes.NewReader(body))
	if err != nil {
		return
	}
	_, rest, _ := bytes.Cut(body, []byte(`"messageId":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	req.Header.Set("X-Message-Id", string(id))
	res, err := l.client.Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
}
