package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/access"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/history"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/jsondiff"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/pause"
	"github.com/seed-45eadc4a/analytics-go/mockserver/webhook"
)

const (
	// lookInterval is the least time between two looks at what came: calls that come
	// faster are looked at together.
	lookInterval = 5 * time.Millisecond
	// maxExplained is how many of the newest calls are compared with what did not hold.
	maxExplained = 1000
)

// expect waits until the calls that came are as expected, or cannot be any more. It
// answers 422 with a report where they are not.
func (a *admin) expect(r *http.Request) (any, error) {
	request, err := readExpectations(r)
	if err != nil {
		return nil, err
	}
	if request.WriteKey != "" {
		var known bool
		if request.Source, known = a.c.SourceOf(request.WriteKey); !known {
			return nil, access.Errorf(http.StatusBadRequest, "invalid", "unknown writeKey; use the write key of a source")
		}
	}
	end, err := a.beginWait()
	if err != nil {
		return nil, err
	}
	defer end()
	began := time.Now()
	w := &waiter{a: a, request: request, checker: expect.NewChecker(request)}
	if err := w.wait(r.Context()); err != nil {
		return nil, err
	}
	a.explaining.Lock() // it takes memory, and those who wait are often late together
	defer a.explaining.Unlock()
	report := w.checker.Report(w.newest(), time.Since(began))
	if !report.OK {
		return withStatus{http.StatusUnprocessableEntity, report}, nil
	}
	return report, nil
}

func readExpectations(r *http.Request) (*expect.Request, error) {
	q := newQuery(r)
	if err := q.done(); err != nil {
		return nil, err
	}
	body, err := readBody(r, maxAdminBody)
	if err != nil {
		return nil, err
	}
	if len(body) == 0 {
		return nil, access.Errorf(http.StatusBadRequest, "invalid_json", `the body is empty; send expectations such as {"within":"10s","expect":[{"event":"Signed Up"}]}`)
	}
	document, err := jsondiff.Decode(body)
	if err != nil {
		return nil, access.Errorf(http.StatusBadRequest, "invalid_json", "the body is not JSON: %v", err)
	}
	request, problems := expect.Parse(document)
	if len(problems) > 0 {
		return nil, badExpectations(problems)
	}
	return request, nil
}

// badExpectations is how a document is refused.
func badExpectations(problems []expect.Problem) *access.Error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = &webhook.FieldError{Field: p.Field(), Problem: p.Wrong, Hint: p.Hint}
	}
	refused := access.ErrorOf(errors.Join(errs...))
	refused.Status = http.StatusBadRequest // 422 says that expectations do not hold
	return refused
}

// A waiter shows the calls that come to a checker.
type waiter struct {
	a       *admin
	request *expect.Request
	checker *expect.Checker
	seen    int64 // the Order of the last item that was looked at
}

// wait returns nil when the checker's status is the last one: the expectations hold or are
// broken for good, or the time is over.
func (w *waiter) wait(ctx context.Context) error {
	end := time.After(w.request.Within)
	var settled <-chan time.Time // nil until all have come that are to come
	for {
		changed, looked := w.a.c.History().Changed(), time.Now()
		w.look()
		switch status := w.checker.Status(); {
		case status == expect.Broken, status == expect.Holding && !w.request.IsBounded():
			return nil
		case status == expect.Holding && settled == nil && !w.request.WaitsForNone():
			settled = time.After(w.request.Settle)
		}
		select {
		case <-changed:
			if err := pause.For(ctx, lookInterval-time.Since(looked)); err != nil {
				return err
			}
		case <-settled:
			w.look()
			return nil
		case <-end:
			w.look()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-w.a.c.Drained():
			return access.Errorf(http.StatusServiceUnavailable, "unavailable", "the collector is stopping")
		}
	}
}

// look shows what is new to the checker.
func (w *waiter) look() {
	for item := range w.a.itemsAfter(w.seen) {
		w.seen = item.Order
		if w.shows(&item) {
			w.checker.Add(callOf(&item))
		}
	}
}

func (w *waiter) shows(i *history.Item) bool {
	return w.a.shows(i) && (w.request.Source == "" || i.Call().Source == w.request.Source)
}

// newest returns the newest of the calls that the checker was shown, oldest first.
func (w *waiter) newest() (calls []*expect.Call) {
	w.a.c.History().Scan(w.seen+1, func(i *history.Item) bool {
		if w.shows(i) {
			item := i.Snapshot()
			calls = append(calls, callOf(&item))
		}
		return len(calls) < maxExplained
	})
	slices.Reverse(calls)
	return calls
}

// callOf returns a call or a refused request as expectations look at it.
func callOf(i *history.Item) *expect.Call {
	c := &expect.Call{Call: *i.Call()}
	switch {
	case i.Rejection != nil:
		c.Code, c.Message = i.Rejection.Code, i.Rejection.Message
	case i.Refusal != nil:
		c.Code, c.Message = i.Refusal.Code, i.Refusal.Message
	}
	return c
}
