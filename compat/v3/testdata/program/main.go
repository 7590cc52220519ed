// Command program contains programs that users wrote for version 3 of the service's
// library. Only the import path differs. The tests of compat/v3 build and run them; the
// module bench builds them with version 3.
//
//	program NAME [ENDPOINT]
//
// runs a program. Without ENDPOINT it prints the calls that the program sends.
package main

import (
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"time"
)

// programs are the programs by name. Each sends its calls to an endpoint.
var programs = map[string]func(endpoint string) error{
	"backend":   backend,
	"calls":     calls,
	"cli":       cli,
	"gateway":   gateway,
	"import":    importUsers,
	"shop":      shop,
	"telemetry": telemetry,
	"ticker":    ticker,
	"readme":    redirected,
	"recorder":  recorded,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 || programs[os.Args[1]] == nil {
		log.Fatal("usage: program NAME [ENDPOINT]")
	}
	if err := run(programs[os.Args[1]], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(program func(endpoint string) error, endpoint []string) error {
	if len(endpoint) > 0 {
		return program(endpoint[0])
	}
	var sent collector
	srv := httptest.NewServer(&sent)
	defer srv.Close()
	if err := program(srv.URL); err != nil {
		return err
	}
	text, err := sent.list()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

// redirect is a transport that redirects requests for the service to a collector.
type redirect struct {
	to   *url.URL
	next http.RoundTripper
}

func (r redirect) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Host = ""
	request.URL.Scheme, request.URL.Host = r.to.Scheme, r.to.Host
	return r.next.RoundTrip(request)
}

// redirected runs readme, which cannot set the endpoint.
func redirected(endpoint string) error {
	to, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	http.DefaultTransport = redirect{to, http.DefaultTransport}
	readme()
	return nil
}

// recorded tests the Tracker of backend with a recorder.
func recorded(string) error {
	var r recorder
	tracker := Tracker{client: &r, source: "test"}
	err := tracker.SignedUp("u", "e", Account{ID: "a"}, time.Now())
	if len(r.messages) != 4 {
		err = errors.Join(err, errors.New("the recorder has not received 4 messages"))
	}
	return err
}
