package cli

import (
	"bytes"
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
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-45eadc4a/analytics-go/mockserver/collector/internal/config"
)

// requestTimeout bounds a request to the admin API. A large replay takes a while.
const requestTimeout = 5 * time.Minute

// maxAnswer bounds the answer of the admin API, in bytes.
const maxAnswer = 64 << 20

// A client asks a collector that runs.
type client struct {
	url, tokenFile, caFile string
	json                   bool

	requester *http.Client // nil before the first request
}

// addFlags adds the flags of all commands that use a collector that runs.
func (c *client) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.url, "url", "", "where the collector is (default $COLLECTOR_URL, or http://"+config.DefaultListen+")")
	flags.StringVar(&c.tokenFile, "token-file", "", "a `file` with the admin token (default $COLLECTOR_TOKEN holds the token)")
	flags.StringVar(&c.caFile, "ca-file", "", "a `file` with the authority of the collector's certificate (default $COLLECTOR_CA_FILE, or what the system trusts)")
	flags.BoolVar(&c.json, "json", false, "print JSON, for scripts")
	_ = cmd.MarkFlagFilename("token-file")
	_ = cmd.MarkFlagFilename("ca-file", "pem", "crt")
}

// http returns what makes the requests.
func (c *client) http() (*http.Client, error) {
	if c.requester != nil {
		return c.requester, nil
	}
	file := c.caFile
	if file == "" {
		file = os.Getenv("COLLECTOR_CA_FILE")
	}
	if file == "" {
		c.requester = http.DefaultClient
		return c.requester, nil
	}
	authorities, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("--ca-file %s holds no certificate: name a file in PEM form", file)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	c.requester = &http.Client{Transport: transport}
	return c.requester, nil
}

// base returns where the collector is, without a slash at its end.
func (c *client) base() (string, error) {
	base, from := c.url, "--url"
	if base == "" {
		base, from = os.Getenv("COLLECTOR_URL"), "COLLECTOR_URL"
	}
	if base == "" {
		base = "http://" + config.DefaultListen
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usagef("%s %q is no URL: use one such as http://%s", from, base, config.DefaultListen)
	}
	return strings.TrimRight(base, "/"), nil
}

func (c *client) token() (string, error) {
	if c.tokenFile == "" {
		return os.Getenv("COLLECTOR_TOKEN"), nil
	}
	token, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	return strings.TrimSpace(string(token)), nil
}

// call asks the admin API. A nil body sends none; the answer is read into answer,
// which is a pointer.
func (c *client) call(ctx context.Context, method, path string, body, answer any) error {
	var payload io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(data)
	}
	req, err := c.request(ctx, method, path, payload)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.ask(req, answer)
}

// request makes a request to the admin API.
func (c *client) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	base, err := c.base()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, base+"/api/v1"+path, body)
	if err != nil {
		return nil, err
	}
	token, err := c.token()
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, err
}

// ask sends a request and reads the answer into answer, if there is one.
func (c *client) ask(req *http.Request, answer any) error {
	base := req.URL.Scheme + "://" + req.URL.Host
	requester, err := c.http()
	if err != nil {
		return err
	}
	status, data, err := exchange(requester, req)
	if err != nil {
		return explainConnect(err, base)
	}
	if status == http.StatusUnauthorized && req.Header.Get("Authorization") != "" {
		return errors.New("the collector refuses this admin token: give that of admin.tokenFile in its configuration")
	}
	if status >= 400 {
		return apiError(status, data)
	}
	if status == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s answers what is not the admin API's JSON: is that a collector?", base)
	}
	return nil
}

func exchange(client *http.Client, req *http.Request) (status int, body []byte, err error) {
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, body, err
}

// apiError is what the admin API said was wrong.
func apiError(status int, data []byte) error {
	var answer struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Success *bool  `json:"success"` // has only an answer of the tracking API
	}
	if json.Unmarshal(data, &answer) != nil || answer.Message == "" {
		return answered(status, data)
	}
	if answer.Success != nil {
		return errors.New("the admin API is not there: give --url with the address of admin.listen in the configuration")
	}
	if status == http.StatusUnauthorized {
		return errors.New("the collector wants its admin token: give --token-file, or set COLLECTOR_TOKEN")
	}
	if answer.Code == "empty_list" {
		return errors.New(strings.Replace(answer.Message, "set allowEmpty", "add --allow-empty", 1))
	}
	return errors.New(answer.Message)
}

// answered is the error of an answer that is not in the form of the collector's.
func answered(status int, data []byte) error {
	if bytes.HasPrefix(data, []byte("Client sent an HTTP request to an HTTPS server")) { // as net/http says it
		return errors.New("the collector listens with TLS: write --url with https://")
	}
	return fmt.Errorf("the answer is %d %s, and not a collector's: see that --url is right", status, http.StatusText(status))
}

// explainConnect adds what to do about it to the error of a connection.
func explainConnect(err error, base string) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens at %s: start one with collector dev, or say where it is with --url", base)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s listens without TLS: write --url with http://", base)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s has not answered in time", base)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("it was broken off before %s had answered", base)
	}
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // which request it was says nothing to people
	}
	if unknown := (x509.UnknownAuthorityError{}); errors.As(err, &unknown) {
		err = fmt.Errorf("%w: name the authority's certificate with --ca-file", err)
	}
	return fmt.Errorf("asking %s: %w", base, err)
}

// printJSON prints an answer as it came.
func printJSON(out io.Writer, answer json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, answer, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(out)
	return err
}

// printValue prints as JSON what did not come as such.
func printValue(out io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return printJSON(out, data)
}

// get asks for a resource, and returns the answer both read and as it came.
func (c *client) get(ctx context.Context, path string, answer any) (json.RawMessage, error) {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return nil, err
	}
	return raw, json.Unmarshal(raw, answer)
}

// table lines up columns. Its rows are divided by tabs.
func table(out io.Writer, print func(row func(cells ...any))) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	print(func(cells ...any) {
		for i, cell := range cells {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, plain(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	})
	return w.Flush()
}

// count says how many there are of something.
func count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// plain makes text harmless that senders chose: a terminal obeys control
// characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// destinationNames completes the name of a destination.
func (c *client) destinationNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list destinationList
	if _, err := c.get(cmd.Context(), "/destinations", &list); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, d := range list.Destinations {
		names = append(names, d.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
