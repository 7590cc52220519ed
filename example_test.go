package analytics_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/seed-45eadc4a/analytics-go"
)

// takeAll starts a collector that accepts each batch and prints its calls.
func takeAll() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Batch []struct{ Type, UserId, Event string }
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		for _, call := range in.Batch {
			fmt.Println(call.Type, call.UserId, call.Event)
		}
		fmt.Fprint(w, `{"success":true}`)
	}))
}

// refuseAll starts a collector that responds 401 to each request.
func refuseAll() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "unknown write key", http.StatusUnauthorized)
	}))
}

func Example() {
	collector := takeAll()
	defer collector.Close()

	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
		Endpoint: collector.URL, // without this line, the client sends calls to the service
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Track(&analytics.Track{
		UserId:     "019mr8mf4r",
		Event:      "Song Played",
		Properties: map[string]interface{}{"name": "Fallin for You", "artist": "Dwele"},
	}); err != nil {
		log.Println(err) // this call was not accepted
	}
	if err := client.Close(); err != nil { // Close sends the queued calls
		log.Println(err)
	}
	// Output: track 019mr8mf4r Song Played
}

// New is for tests and for programs that were written for version 2.
func ExampleNew() {
	collector := takeAll()
	defer collector.Close()

	client := analytics.New("YOUR_WRITE_KEY")
	client.Endpoint = collector.URL
	client.Size = 100                  // the maximum number of calls in a batch
	client.Interval = 30 * time.Second // the longest time that a call waits for its batch
	client.Logger = log.New(os.Stderr, "analytics ", log.LstdFlags)
	defer client.Close()

	_ = client.Identify(&analytics.Identify{UserId: "019mr8mf4r"})
	// Output: identify 019mr8mf4r
}

func ExampleNewWithConfig() {
	collector := takeAll()
	defer collector.Close()

	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
		Endpoint:    collector.URL,
		FlushAt:     100,
		FlushAfter:  10 * time.Second,
		MaxInFlight: 1,        // the collector receives the calls in order
		MaxBytes:    16 << 20, // the memory for calls while the collector is unavailable
		Gzip:        false,    // set it to true if the collector accepts gzip
		HTTPClient:  &http.Client{Timeout: 5 * time.Second},
	})
	if err != nil {
		log.Fatal(err) // the error lists all problems
	}
	defer client.Close()

	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"})
	// Output: track 019mr8mf4r Song Played
}

func ExampleNewWithConfig_refused() {
	_, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{Endpoint: "localhost:8765"})
	fmt.Println(err)
	// Output: analytics: Endpoint "localhost:8765" is not an http or https URL with a host; it must look like http://localhost:8765
}

func ExampleClient_Identify() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Identify(&analytics.Identify{
		UserId: "019mr8mf4r",
		Traits: map[string]interface{}{"name": "Michael Bolton", "email": "mbolton@example.com", "friends": 42},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Track() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	// This event happened in the past, and the user is unknown.
	err := client.Track(&analytics.Track{
		AnonymousId: "d2b3a9c0",
		Event:       "Order Completed",
		Properties:  map[string]interface{}{"total": 99.5, "currency": "EUR"},
		Message:     analytics.Message{MessageId: "order-1729", Timestamp: "2024-02-29T17:29:00+01:00"},
	})
	fmt.Println(err)
	// Output: <nil>
}

// Attributes of log/slog can replace a map. If several attributes have the same key, the last one
// wins.
func ExampleClient_Track_attributes() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Track(&analytics.Track{
		UserId: "019mr8mf4r",
		Event:  "Order Completed",
		Attrs: []slog.Attr{
			slog.String("orderId", "50314b8e"),
			slog.Float64("total", 99.5),
			slog.Group("shipping", slog.String("method", "express"), slog.Time("due", time.Now())),
		},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Track_invalid() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Track(&analytics.Track{
		UserId: "019mr8mf4r", Event: "Order Completed",
		Properties: map[string]interface{}{"cart": map[string]interface{}{"total": func() {}}},
	})
	var field *analytics.FieldError
	if errors.As(err, &field) {
		fmt.Println(field.Kind, field.Field)
	}
	fmt.Println(client.Track(&analytics.Track{UserId: "019mr8mf4r"}))
	// Output:
	// track properties.cart.total
	// You must pass 'event'.
}

func ExampleClient_Page() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Page(&analytics.Page{
		UserId:   "019mr8mf4r",
		Category: "Docs",
		Name:     "Go library",
		Traits:   map[string]interface{}{"url": "https://example.com/docs/go", "title": "Go library"},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Screen() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Screen(&analytics.Screen{UserId: "019mr8mf4r", Name: "Basket", Properties: map[string]interface{}{"items": 3}})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Group() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Group(&analytics.Group{
		UserId: "019mr8mf4r", GroupId: "acme",
		Traits: map[string]interface{}{"name": "Acme", "employees": 1200},
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleClient_Alias() {
	client := analytics.New("YOUR_WRITE_KEY")
	defer shutOff(client)()

	err := client.Alias(&analytics.Alias{PreviousId: "d2b3a9c0", UserId: "019mr8mf4r"})
	fmt.Println(err)
	// Output: <nil>
}

// The call waits for free memory until the context of the request is done.
func ExampleClient_Enqueue() {
	collector := takeAll()
	defer collector.Close()
	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{Endpoint: collector.URL, WhenFull: analytics.Block})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.Enqueue(ctx, &analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"}); err != nil {
		log.Println(err)
	}
	// Output: track 019mr8mf4r Song Played
}

func ExampleClient_Flush() {
	collector := takeAll()
	defer collector.Close()
	client := analytics.New("YOUR_WRITE_KEY")
	client.Endpoint = collector.URL
	defer client.Close()

	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		log.Println(err)
	}
	fmt.Println("flushed")
	// Output:
	// track 019mr8mf4r Song Played
	// flushed
}

func ExampleClient_Shutdown() {
	collector := refuseAll()
	defer collector.Close()
	client := analytics.New("A_WRONG_KEY")
	client.Endpoint = collector.URL
	client.Logger.SetOutput(new(lines))

	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := client.Shutdown(ctx)
	var undelivered *analytics.UndeliveredError
	if errors.As(err, &undelivered) {
		fmt.Println(undelivered.Calls(), "call was not delivered;", undelivered.Dropped.Refused, "was refused")
	}
	fmt.Println(client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Too late"}))
	// Output:
	// 1 call was not delivered; 1 was refused
	// analytics: the client is closed
}

func ExampleClient_Stats() {
	collector := takeAll()
	defer collector.Close()
	client := analytics.New("YOUR_WRITE_KEY")
	client.Endpoint = collector.URL

	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"})
	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r"}) // invalid, because the event is missing
	_ = client.Close()

	s := client.Stats()
	fmt.Println(s.Accepted, "accepted,", s.Delivered, "delivered,", s.Dropped.Total(), "dropped,", s.Pending, "pending,", s.Rejected.Invalid, "invalid")
	// Output:
	// track 019mr8mf4r Song Played
	// 1 accepted, 1 delivered, 0 dropped, 0 pending, 1 invalid
}

// The callback receives the result of each call.
func ExampleConfig_callback() {
	collector := refuseAll()
	defer collector.Close()
	client, err := analytics.NewWithConfig("A_WRONG_KEY", analytics.Config{
		Endpoint: collector.URL,
		Logger:   log.New(new(lines), "", 0),
		Callback: func(r analytics.Result) {
			var drop *analytics.DropError
			if errors.As(r.Err, &drop) {
				fmt.Println(r.Type, r.MessageId, "was lost:", drop.Reason, drop.Status)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = client.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played", Message: analytics.Message{MessageId: "play-1"}})
	_ = client.Close()
	// Output: track play-1 was lost: refused 401
}

// A slog.Handler receives constant messages with attributes.
func ExampleConfig_slog() {
	collector := refuseAll()
	defer collector.Close()
	handler := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{} // remove the time, because it differs in each run
		}
		return a
	}})
	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
		Endpoint: collector.URL,
		Slog:     slog.New(handler).With("component", "analytics"),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = client.Track(&analytics.Track{Event: "Song Played", UserId: "u"})
	_ = client.Close()
	// Output: level=ERROR msg="calls lost" component=analytics calls=1 reason=refused attempts=1 status=401 error="the collector responded with 401 Unauthorized: unknown write key"
}

// Config.Value stores the request ID with each call, and the callback receives it.
func ExampleConfig_value() {
	collector := refuseAll()
	defer collector.Close()
	type requestKey struct{}
	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
		Endpoint: collector.URL,
		Logger:   log.New(new(lines), "", 0),
		Value:    func(ctx context.Context) interface{} { return ctx.Value(requestKey{}) },
		Callback: func(r analytics.Result) {
			if r.Err != nil {
				fmt.Println("request", r.Value, "made a call that was lost:", r.Type)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.WithValue(context.Background(), requestKey{}, "4711") // middleware usually adds the request ID
	_ = client.Enqueue(ctx, &analytics.Track{Event: "Song Played", UserId: "u"})
	_ = client.Close()
	// Output: request 4711 made a call that was lost: track
}

// The client's integrations select one destination. A call can name other destinations.
func ExampleConfig_integrations() {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Batch []struct{ Integrations json.RawMessage }
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		for _, call := range in.Batch {
			fmt.Printf("%s\n", call.Integrations)
		}
	}))
	defer collector.Close()
	client, err := analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
		Endpoint:     collector.URL,
		Integrations: analytics.Integrations{}.DisableAll().Enable("Webhooks"),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = client.Track(&analytics.Track{Event: "a", UserId: "u"})
	_ = client.Track(&analytics.Track{Event: "b", UserId: "u", Integrations: analytics.Integrations{}.Enable("Mixpanel")})
	_ = client.Close()
	// Output:
	// {"All":false,"Webhooks":true}
	// {"Mixpanel":true,"All":false,"Webhooks":true}
}

func ExampleIntegrations() {
	track := analytics.Track{
		UserId: "019mr8mf4r", Event: "Song Played",
		Integrations: analytics.NewIntegrations().DisableAll().Enable("Webhooks"),
	}
	b, _ := json.Marshal(track.Integrations)
	fmt.Println(string(b))
	// Output: {"All":false,"Webhooks":true}
}

// shutOff makes all requests of the client fail, so that an example does not send to the service.
func shutOff(client *analytics.Client) func() {
	collector := httptest.NewServer(http.NotFoundHandler())
	client.Endpoint = collector.URL
	client.Logger.SetOutput(new(lines))
	return func() {
		_ = client.Close()
		collector.Close()
	}
}

// A client with a spool keeps undelivered calls for the next client.
func ExampleConfig_spool() {
	dir, err := os.MkdirTemp("", "spool-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	config := analytics.Config{
		Endpoint: "http://127.0.0.1:1", // no server listens on this port
		Spool:    dir,                  // in production, a directory such as /var/lib/app/analytics
	}

	first, err := analytics.NewWithConfig("YOUR_WRITE_KEY", config)
	if err != nil {
		log.Fatal(err)
	}
	if err := first.Track(&analytics.Track{UserId: "019mr8mf4r", Event: "Song Played"}); err != nil {
		log.Println(err) // the call could not be written
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = first.Shutdown(ctx)
	fmt.Println("left:", first.Stats().Pending)

	collector := takeAll()
	defer collector.Close()
	config.Endpoint = collector.URL
	second, err := analytics.NewWithConfig("YOUR_WRITE_KEY", config)
	if err != nil {
		log.Fatal(err)
	}
	if err := second.Flush(context.Background()); err != nil { // Flush also sends the calls of previous processes
		log.Println(err)
	}
	fmt.Println("delivered:", second.Stats().Delivered)
	_ = second.Close()
	// Output:
	// left: 1
	// track 019mr8mf4r Song Played
	// delivered: 1
}

// Short-lived processes share several spool directories. Each process uses the first free
// directory, and sends the calls that a previous process has left there.
func ExampleConfig_spoolOfManyProcesses() {
	base, err := os.MkdirTemp("", "spool-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(base)
	collector := takeAll()
	defer collector.Close()

	open := func() (*analytics.Client, error) {
		opened, cancel := context.WithCancel(context.Background())
		cancel() // the context is already done, so Flush only opens the directory
		var client *analytics.Client
		for n := range 16 {
			client, err = analytics.NewWithConfig("YOUR_WRITE_KEY", analytics.Config{
				Endpoint: collector.URL,
				Spool:    filepath.Join(base, strconv.Itoa(n)),
			})
			if err != nil {
				return nil, err
			}
			if err = client.Flush(opened); !errors.Is(err, analytics.ErrSpool) {
				return client, nil
			}
		}
		return nil, err // err is the error of the last directory
	}
	for range 2 {
		client, err := open()
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
	}
	taken, _ := filepath.Glob(filepath.Join(base, "*"))
	fmt.Println(len(taken), "directories")
	// Output: 2 directories
}
