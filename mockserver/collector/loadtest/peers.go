package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/harness"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

// self starts this program again as another part of the measurement.
func (b *bench) self(args ...string) (*harness.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return harness.Start(self, args, nil)
}

// nullServer starts a server that does nothing, in a process of its own: a bare handler,
// or a receiver.
func (b *bench) nullServer() (url string, p *harness.Process, err error) {
	p, url, err = b.server("null-server")
	return url, p, err
}

// server starts this program as a server, and waits until it listens.
func (b *bench) server(command string, args ...string) (p *harness.Process, url string, err error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return nil, "", err
	}
	if p, err = b.self(append([]string{command, address}, args...)...); err != nil {
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

// newNullServer is the command of a nullServer, which reads what it gets.
func newNullServer() *cobra.Command {
	return &cobra.Command{
		Use: "null-server ADDRESS", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			server := &http.Server{Addr: args[0], ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, `{"success": true}`)
			})}
			return server.ListenAndServe()
		},
	}
}

// newBareRelay is the command of a bareRelay.
func newBareRelay() *cobra.Command {
	return &cobra.Command{
		Use: "bare-relay ADDRESS URL FILE", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := os.Create(args[2])
			if err != nil {
				return err
			}
			relay := &relay{to: args[1], file: file, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: webhook.Timeout}}
			server := &http.Server{Addr: args[0], ReadHeaderTimeout: time.Second, Handler: relay}
			return server.ListenAndServe()
		},
	}
}

// A relay posts each request that it has written to a file.
type relay struct {
	to     string
	client *http.Client

	mu   sync.Mutex // guards file
	file *os.File
}

func (l *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = l.keep(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, `{"success": true}`)
	go l.post(body)
}

// keep brings a body to the disk.
func (l *relay) keep(body []byte) error {
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

// newBareSender is a program that does nothing but post one payload.
func newBareSender() *cobra.Command {
	return &cobra.Command{
		Use: "bare-sender URL DURATION CONCURRENCY", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			concurrency, err := strconv.Atoi(args[2])
			if err != nil {
				return err
			}
			rate, all := bareRate(args[0], d, concurrency)
			fmt.Fprintln(os.Stdout, rate, all)
			return nil
		},
	}
}

// bareRate posts one payload in a loop. It returns how many a second it did, and
// how many in all, with those to warm up.
func bareRate(url string, d time.Duration, concurrency int) (rate float64, all int64) {
	payload := `{"version":1,"type":"track","userId":"user-12345","event":"Order Completed","properties":{"revenue":129.9` +
		strings.Repeat(`,"property":"value 7919 of 12"`, 18) + `},"timestamp":"2026-01-02T03:04:05.678Z"}`
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}, Timeout: webhook.Timeout}
	var done atomic.Int64
	var senders sync.WaitGroup
	loop := func(until time.Time) {
		for range concurrency {
			senders.Go(func() {
				for time.Now().Before(until) {
					res, err := client.Post(url, "application/json", strings.NewReader(payload))
					if err != nil {
						continue
					}
					buf := make([]byte, 512)
					for err == nil {
						_, err = res.Body.Read(buf)
					}
					_ = res.Body.Close()
					done.Add(1)
				}
			})
		}
		senders.Wait()
	}
	loop(time.Now().Add(d / 5)) // warm up
	warm, start := done.Load(), time.Now()
	loop(start.Add(d))
	return float64(done.Load()-warm) / time.Since(start).Seconds(), done.Load()
}
