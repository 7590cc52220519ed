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
	// lookInterval is the minimum time between two checks of new calls.
	lookInterval = 5 * time.Millisecond
	// maxExplained limits the number of recent calls that a report compares with unmet
	// expectations.
	maxExplained = 1000
)

// expect waits until the expectations are met or cannot be met any longer. If they are not
// met, it responds with 422 and a report.
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
	a.explaining.Lock() // a report needs memory, and several waits often finish at the same time
	defer a.explaining.Unlock()
	report := w.checker.Report(w.newest(), time.Since(began))
	if !report.OK {
		return withStatus{http.StatusUnprocessableEntity, report}, nil
	}
	return report, nil
}

func readExpectations(r *http.Request) (*expect.Request, error) {
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

// badExpectations returns the error for an invalid document.
func badExpectations(problems []expect.Problem) *access.Error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = &webhook.FieldError{Field: p.Field(), Problem: p.Wrong, Hint: p.Hint}
	}
	refused := access.ErrorOf(errors.Join(errs...))
	refused.Status = http.StatusBadRequest // 422 means that the expectations are not met
	return refused
}

// A waiter passes new calls to a checker.
type waiter struct {
	a       *admin
	request *expect.Request
	checker *expect.Checker
	seen    int64 // order of the last examined item
}

// wait waits until the expectations are met, they cannot be met any longer, or the time is
// over.
func (w *waiter) wait(ctx context.Context) error {
	end := time.After(w.request.Within)
	var settled <-chan time.Time // nil until all expected calls have arrived
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

// look passes the calls since the last look to the checker.
func (w *waiter) look() {
	for item := range w.a.c.History().Forward(w.seen) {
		w.seen = item.Order
		if w.shows(&item) {
			w.checker.Add(callOf(&item))
		}
	}
}

func (w *waiter) shows(i *history.Item) bool {
	return w.a.shows(i) && (w.request.Source == "" || i.Call().Source == w.request.Source)
}

// newest returns the newest calls that the checker has received, and the refused requests without a
// known source, oldest first.
func (w *waiter) newest() (calls []*expect.Call) {
	w.a.c.History().Scan(w.seen+1, func(i *history.Item) bool {
		if w.shows(i) || w.a.shows(i) && i.Refusal != nil && i.Call().Source == "" {
			calls = append(calls, callOf(i))
		}
		return len(calls) < maxExplained
	})
	slices.Reverse(calls)
	return calls
}

// callOf converts an item for the checker.
func callOf(i *history.Item) *expect.Call {
	c := &expect.Call{Call: *i.Call()}
	if p := i.Problem(); p != nil {
		c.Code, c.Message = p.Code, p.Message
	}
	return c
}
