package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/internal/spell"
	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

const (
	// requestTimeout limits a request to the collector. Large replays take minutes.
	requestTimeout = 5 * time.Minute
	// maxResponse limits the size of a response, in bytes.
	maxResponse = 64 << 20
)

// A client sends requests to a running collector.
type client struct {
	url, tokenFile, caFile string
	output                 output

	secret    string       // admin token; empty if it is not known yet
	mu        sync.Mutex   // guards requester
	requester *http.Client // nil before the first request
}

// addTo adds the flags for access and output to cmd and returns it.
func (c *client) addTo(cmd *cobra.Command) *cobra.Command {
	c.addAccessTo(cmd)
	c.output.addOutputTo(cmd)
	return cmd
}

// addAccessTo adds the flags for the URL and the admin token.
func (c *client) addAccessTo(cmd *cobra.Command) {
	c.addAddressTo(cmd)
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "a `file` with the admin token (default: the token in $COLLECTOR_TOKEN)")
	_ = cmd.MarkFlagFilename("token-file")
}

// addAddressTo adds the flags for the URL of the collector.
func (c *client) addAddressTo(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.url, "url", "", "the URL of the collector (default $COLLECTOR_URL, or http://"+config.DefaultListen+")")
	flags.StringVar(&c.caFile, "ca-file", "", "a `file` with the CA of the collector's certificate (default $COLLECTOR_CA_FILE, or the system's CAs)")
	_ = cmd.MarkFlagFilename("ca-file", "pem", "crt")
}

// A response contains a response of the admin API in decoded and in raw form.
type response[T any] struct {
	read T
	raw  json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *response[T]) UnmarshalJSON(data []byte) error {
	r.raw = bytes.Clone(data)
	return json.Unmarshal(data, &r.read)
}

// get sends a GET request to the admin API.
func get[T any](ctx context.Context, c *client, path string) (response[T], error) {
	return ask[T](ctx, c, http.MethodGet, path, nil)
}

// ask sends a request to the admin API. body may be nil.
func ask[T any](ctx context.Context, c *client, method, path string, body any) (r response[T], err error) {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return r, err
		}
		payload = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := c.request(ctx, method, path, payload)
	if err != nil {
		return r, err
	}
	err = c.do(req, &r)
	return r, err
}

// A query is a request to the admin API. A command prints its response.
type query struct {
	method string // defaults to GET
	path   string
	body   any
	list   string // field that jsonl prints one element per line; empty for the whole response
}

// show sends a query and prints the response as data or, by default, with text.
func show[T any](cmd *cobra.Command, c *client, q query, text func(out *printer, v T)) error {
	r, err := ask[T](cmd.Context(), c, cmp.Or(q.method, http.MethodGet), q.path, q.body)
	if err != nil {
		return err
	}
	return printResponse(cmd, c, r, q.list, text)
}

// printResponse prints a response as data or, by default, with text.
func printResponse[T any](cmd *cobra.Command, c *client, r response[T], list string, text func(out *printer, v T)) error {
	return c.output.write(cmd, r.raw, list, func(out *printer) { text(out, r.read) })
}

// request returns a request to the admin API.
func (c *client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	return c.requestTo(ctx, method, "/api/v1"+path, body)
}

// requestTo returns a request for any path of the collector. A body is JSON by default.
func (c *client) requestTo(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// do sends a request to the admin API and decodes the response into v.
func (c *client) do(req *http.Request, v any) error {
	status, data, err := c.exchange(req)
	if err != nil {
		return err
	}
	if status >= 400 {
		return refusal(req, status, data)
	}
	if status == http.StatusNoContent {
		if req.Method == http.MethodGet {
			return notCollectorError(status, data)
		}
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil || bytes.TrimSpace(data)[0] != '{' { // commands print parts of the object
		return fmt.Errorf("the response of %s://%s is not from the admin API: check --url", req.URL.Scheme, req.URL.Host)
	}
	return nil
}

// exchange sends a request and returns the status and the body of the response.
func (c *client) exchange(req *http.Request) (status int, body []byte, err error) {
	requester, err := c.http()
	if err != nil {
		return 0, nil, err
	}
	res, err := requester.Do(req)
	if err == nil {
		defer res.Body.Close()
		status = res.StatusCode
		body, err = io.ReadAll(io.LimitReader(res.Body, maxResponse))
	}
	if err != nil {
		return 0, nil, explainConnect(err, req.URL.Scheme+"://"+req.URL.Host)
	}
	return status, body, nil
}

// http returns the HTTP client, which trusts the CA set by --ca-file.
func (c *client) http() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.requester != nil {
		return c.requester, nil
	}
	file, from := setting("--ca-file", c.caFile, "COLLECTOR_CA_FILE")
	if file == "" {
		c.requester = http.DefaultClient
		return c.requester, nil
	}
	authorities, err := config.ReadFile(file, maxCertificates)
	if err != nil {
		return nil, usagef("%s: %w", from, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, usagef("%s %s contains no certificate: use a PEM file", from, text.Quote(text.MaxRepeated, file))
	}
	c.requester = tlsClient(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	return c.requester, nil
}

func tlsClient(config *tls.Config) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &http.Client{Transport: transport}
}

// base returns the URL of the collector without a trailing slash.
func (c *client) base() (string, error) {
	const standard = "http://" + config.DefaultListen
	given, from := setting("--url", c.url, "COLLECTOR_URL")
	base := withProtocol(cmp.Or(given, standard))
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || strings.TrimSpace(base) != base {
		if at := strings.LastIndexByte(given, '@'); at >= 0 { // after a password
			given = "…" + given[at:]
		}
		return "", usagef("invalid %s %s: use a URL such as %s", from, text.Quote(text.MaxRepeated, given), standard)
	}
	return strings.TrimRight(base, "/"), nil
}

// withProtocol adds the protocol to an address that has none.
func withProtocol(address string) string {
	protocol, _ := spell.Protocol(address)
	return protocol + address
}

// setting returns the value of a flag, or of an environment variable if the flag is empty, and
// the name of the one it used.
func setting(flag, value, variable string) (used, from string) {
	if value != "" {
		return value, flag
	}
	return os.Getenv(variable), variable
}

// token returns the admin token, or "" without one.
func (c *client) token() (string, error) {
	switch {
	case c.secret != "":
		return c.secret, nil
	case c.tokenFile == "":
		token := os.Getenv("COLLECTOR_TOKEN")
		return token, checkSecret("COLLECTOR_TOKEN", token)
	}
	return readSecret("--token-file", c.tokenFile)
}

// An apiError is an error in a response of the admin API or the tracking API.
type apiError struct {
	Code    tracking.Code `json:"code"`
	Message string        `json:"message"`
	Success *bool         `json:"success"` // set only in responses of the tracking API
}

// refusal returns the error for a response of the admin API with an error status.
func refusal(req *http.Request, status int, data []byte) error {
	if status == http.StatusUnauthorized && req.Header.Get("Authorization") != "" {
		return errors.New("invalid admin token: use the token in the file set by admin.tokenFile")
	}
	var failure apiError
	switch {
	case json.Unmarshal(data, &failure) != nil || failure.Message == "":
		return notCollectorError(status, data)
	case failure.Success != nil:
		return errors.New("no admin API at this address: set --url to the address of admin.listen")
	case status == http.StatusUnauthorized:
		return errors.New("the collector requires its admin token: set --token-file or COLLECTOR_TOKEN")
	case failure.Code == "empty_list":
		return errors.New(strings.Replace(failure.Message, "set allowEmpty", "add --allow-empty", 1))
	}
	return errors.New(failure.Message)
}

// notCollectorError returns the error for a response that is not from a collector.
func notCollectorError(status int, data []byte) error {
	if bytes.HasPrefix(data, []byte("Client sent an HTTP request to an HTTPS server")) { // net/http sends this text
		return errors.New("the collector uses TLS: use https:// in --url")
	}
	return fmt.Errorf("the response (%d %s) is not from a collector: check --url", status, http.StatusText(status))
}

// explainConnect replaces common connection errors with instructions.
func explainConnect(err error, base string) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no collector at %s: start one with collector dev, or set --url", base)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not use TLS: use http:// in --url", base)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not respond in time", base)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("canceled while waiting for %s", base)
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // without the method and the URL
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		err = fmt.Errorf("%w: set --ca-file to the certificate of its CA", err)
	}
	return fmt.Errorf("request to %s: %w", base, err)
}

// names returns the names of all sources or all destinations.
func (c *client) names(ctx context.Context, kind string) (names []string, err error) {
	list, err := get[map[string][]named](ctx, c, "/"+kind)
	for _, one := range list.read[kind] {
		names = append(names, one.Name)
	}
	return names, err
}
