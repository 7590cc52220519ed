// A program that makes calls of the plan strange.yaml, and prints them.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	analytics "github.com/seed-45eadc4a/analytics-go"
	"github.com/seed-45eadc4a/analytics-go/internal/generated/events"
	"github.com/seed-45eadc4a/analytics-go/typed"
)

// printer is a collector that prints what it gets.
type printer struct{}

func (printer) RoundTrip(r *http.Request) (*http.Response, error) {
	_, err := io.Copy(os.Stdout, r.Body)
	fmt.Println()
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, err
}

func everything() events.Everything {
	at := time.Date(2026, 11, 22, 1, 2, 3, 4e6, time.UTC)
	return events.Everything{
		S: "s", I: -1, F: 0.5, T: at, E: events.EverythingEAB, N: events.EverythingNMinus1,
		O: events.EverythingO{X: 1, Y: typed.Some(events.EverythingOYP)},
		L: []string{"a"}, Ll: [][]int{{1, 2}, nil, {3}}, Le: []events.EverythingLeItem{events.EverythingLeItemU},
		Lt: []time.Time{at}, Lo: []events.Item2{{SKU: "x", Quantity: typed.Some(0)}, {SKU: "y"}}, Lln: [][]events.Item2{{{SKU: "z"}}},
		La: []any{1, "x", nil}, Lm: []map[string]any{nil, {"k": 1}}, Ln: []any{"x", nil},
		A: map[string]any{"x": 1}, Two: 3, Mixed: "a", One: typed.Some(events.EverythingOneFixed),
		No: &events.EverythingNo{X: typed.Some(1.5)}, Ne: typed.Some(events.EverythingNeA),
		Os: typed.Some(""), Ot: typed.Some(at), Oe: typed.Some(events.EverythingOe2), Oo: &events.EverythingOo{},
		Om: map[string]any{"a": "b"}, Oa: []int{1},
		Tree: &events.Tree{Name: typed.Some("root"), Left: &events.Tree{}, Branches: []events.Tree{{Name: typed.Some("leaf")}, {}}},
	}
}

func main() {
	client, err := analytics.NewWithConfig("key", analytics.Config{HTTPClient: &http.Client{Transport: printer{}}, FlushAt: 1000})
	check(err)
	least := events.Everything{S: "s", T: time.Unix(0, 0), E: events.EverythingEEmpty, N: events.EverythingN1}
	check(client.Track(events.OrderCompleted{}.By("u")))
	check(client.Track(events.OrderCompleted2{OrderID: "o", By2: typed.Some("b")}.ByAnonymous("a")))
	check(client.Track(events.X3DViewed{X2fa: true, AB: typed.Some("x")}.By("u")))
	check(client.Track(events.Événement{Été: typed.Some(1.0), X名前: typed.Some("n")}.By("u")))
	check(client.Track(events.X購入{}.By("u")))
	check(client.Track(events.Event{Anything: typed.Some("x")}.By("Unheard Of", "u")))
	check(client.Track(everything().By("u")))
	check(client.Track(least.By("u")))
	check(client.Identify(events.UserTraits{Email: typed.Some("a@example.com")}.Of("u")))
	check(client.Group(events.GroupTraits{Seats: typed.Some(3)}.Of("g", "u")))
	check(client.Page(events.DocsPage{Path: "/"}.By("u")))
	check(client.Page(events.Page{}.By("Any", "u")))
	check(client.Screen(events.DocsScreen{}.ByAnonymous("a")))

	wrong := func(field string, change func(*events.Everything)) {
		e := everything()
		change(&e)
		if err := client.Track(e.By("u")); !errors.Is(err, &analytics.FieldError{Kind: "track", Field: "properties." + field}) {
			check(fmt.Errorf("%s: %v", field, err))
		}
	}
	wrong("s", func(e *events.Everything) { e.S = "" })
	wrong("t", func(e *events.Everything) { e.T = time.Time{} })
	wrong("e", func(e *events.Everything) { e.E = "c" })
	wrong("n", func(e *events.Everything) { e.N = 0 })
	wrong("le[1]", func(e *events.Everything) { e.Le = append(e.Le, "w") })
	wrong("lo[1].sku", func(e *events.Everything) { e.Lo[1].SKU = "" })
	wrong("oa", func(e *events.Everything) { e.Oa = make(chan int) })

	id := os.Args[0]
	allocs := testing.AllocsPerRun(200, func() {
		err = errors.Join(err, client.Track(events.OrderCompleted2{OrderID: id, OrderID2: typed.Some(id), Write: typed.Some(len(id))}.By(id)))
	})
	check(err)
	if allocs != 0 {
		check(fmt.Errorf("%v allocations", allocs))
	}
	check(client.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
