package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	analytics "github.com/seed-45eadc4a/analytics-go/compat/v3"
)

// A proxy accepts messages from browsers as JSON, validates them, adds request data and
// forwards them.
type proxy struct {
	client analytics.Client
}

func (p proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	msg, err := decode(strings.TrimPrefix(r.URL.Path, "/v1/"), r.Body, &analytics.Context{
		IP:        net.ParseIP(r.Header.Get("X-Forwarded-For")),
		UserAgent: r.UserAgent(),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := msg.Validate(); err != nil {
		if field, ok := err.(analytics.FieldError); ok {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(map[string]interface{}{"type": field.Type, "missing": field.Name})
			return
		}
	}
	switch err := p.client.Enqueue(msg); {
	case err == analytics.ErrClosed:
		http.Error(w, "shutting down", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// decode reads a message into the library's own types.
func decode(kind string, body io.Reader, context *analytics.Context) (analytics.Message, error) {
	decoder := json.NewDecoder(body)
	switch kind {
	case "track":
		m := &analytics.Track{Context: context}
		return m, decoder.Decode(m)
	case "identify":
		m := &analytics.Identify{Context: context}
		return m, decoder.Decode(m)
	case "page":
		m := &analytics.Page{Context: context}
		return m, decoder.Decode(m)
	}
	return nil, errors.New("no such kind of message: " + kind)
}

// gateway runs a proxy and some browsers.
func gateway(endpoint string) error {
	client, err := analytics.NewWithConfig("gateway-key", analytics.Config{
		Endpoint:       endpoint,
		Logger:         analytics.StdLogger(log.New(io.Discard, "", 0)),
		Transport:      http.DefaultTransport,
		DefaultContext: &analytics.Context{App: analytics.AppInfo{Name: "gateway", Version: "1.4"}},
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: proxy{client}}
	defer server.Close()
	go server.Serve(listener)
	for _, request := range []struct {
		path, body string
		status     int
	}{
		{"/v1/track", `{"anonymousId":"a1","event":"Clicked","messageId":"m1","timestamp":"2026-03-04T05:06:07.089Z","properties":{"x":1}}`, 200},
		{"/v1/identify", `{"userId":"u1","traits":{"name":"Jo"},"context":{"locale":"nl-NL","page":{"path":"/"}}}`, 200},
		{"/v1/page", `{"userId":"u1","name":"Home","integrations":{"All":true}}`, 200},
		{"/v1/track", `{"userId":"u1"}`, 422},
		{"/v1/pixel", `{}`, 400},
	} {
		r, _ := http.NewRequest(http.MethodPost, "http://"+listener.Addr().String()+request.path, bytes.NewReader([]byte(request.body)))
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		r.Header.Set("User-Agent", "browser/1")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != request.status {
			return fmt.Errorf("%s: %d", request.path, answer.StatusCode)
		}
	}
	return client.Close()
}
