package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/mockserver"
	"github.com/seed-45eadc4a/analytics-go/plan"
)

func TestMain(m *testing.M) {
	code := m.Run()
	unused, err := plan.Unused("plan.yaml")
	if err != nil {
		fmt.Println(err)
		code = 1
	}
	for _, event := range unused {
		fmt.Printf("plan.yaml:%d: no test sends %v\n", event.Line, event)
		code = 1
	}
	os.Exit(code)
}

// sent starts a server and sends calls to it. It returns the server, which contains the calls.
func sent(t *testing.T, send func(Shop) error) *mockserver.Server {
	t.Helper()
	srv := mockserver.RunT(t)
	client := analytics.New("any-key")
	client.Endpoint = srv.URL
	if err := send(Shop{client}); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil { // sends the queued calls
		t.Error(err)
	}
	return srv
}

func TestVisitIsAsPlanned(t *testing.T) {
	srv := sent(t, func(s Shop) error { return s.Visit("ada") })
	plan.Expect(t, srv, "plan.yaml")
}

// failures is a plan.TB that records failures.
type failures []string

func (*failures) Helper() {}
func (f *failures) Errorf(format string, args ...any) {
	*f = append(*f, fmt.Sprintf(format, args...))
}

func TestMistakesFailReadably(t *testing.T) {
	srv := sent(t, func(s Shop) error { return s.Mistakes("bob") })
	var got failures
	plan.Expect(&got, srv, "plan.yaml")
	want := `plan: 3 of 3 calls violate plan.yaml
  track "order_completed"
    plan.yaml: is not in the plan; did you mean "Order Completed"?
  track "Order Completed"
    plan.yaml:7: /properties/currency is "eur"; expected one of "EUR", "USD"; did you mean "EUR"?
    plan.yaml:12: /properties/items/0/quantity is 0; expected at least 1
    plan.yaml:6: /properties/items/0/sku is "tea"; expected a string that matches ^[A-Z]{3}-[0-9]+$
    plan.yaml:62: /properties/oderId is not in the plan; did you mean orderId?
    plan.yaml:57: /properties/orderId is missing; expected a string
    plan.yaml:5: /properties/total is "9.90", a string; expected a number
  identify
    plan.yaml:71: /traits/email is "nobody"; expected a string of format email`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

func TestTypedVisitIsAsPlanned(t *testing.T) {
	srv := sent(t, func(s Shop) error { return s.VisitTyped("ada") })
	plan.Expect(t, srv, "plan.yaml")
}
