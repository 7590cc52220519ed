package plan

import (
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"sync"
)

// A TB is what is needed here of a *testing.T, *testing.B or *testing.F.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Calls are what came to a server: a *mockserver.Server or a mockserver.View. Bodies
// yields the JSON of each call.
type Calls interface {
	Bodies() iter.Seq[[]byte]
}

// Expect fails the test unless calls came, and all are as the plan of a file says. It
// lists every violation of every call, grouped, with the line of the plan:
//
//	srv := mockserver.RunT(t)
//	… // send calls, and close the client
//	plan.Expect(t, srv, "plan.yaml")
//
// It does not wait, and the test goes on: call it when what the test does is done, and
// was flushed. A file is read once for all tests of
// a process; one that is no plan fails each of them, and says why.
func Expect(t TB, calls Calls, file string) {
	t.Helper()
	x, err := expectations.of(file)
	if err != nil {
		t.Errorf("%v", withHint(err))
		return
	}
	report := x.plan.NewReport()
	for body := range calls.Bodies() {
		report.Add(body)
	}
	x.count(report)
	switch {
	case report.empty():
		t.Errorf("plan: %v: call Expect once the client was flushed or closed", report)
	case !report.OK():
		t.Errorf("plan: %v", report)
	}
}

// Unused returns the planned events of a file that no call was held against in any
// [Expect] of this process, in the order of the file. Ask for it when all tests are done:
//
//	func TestMain(m *testing.M) {
//		code := m.Run()
//		unused, err := plan.Unused("plan.yaml")
//		for _, event := range unused {
//			fmt.Printf("plan.yaml:%d: no test sends %v\n", event.Line, event)
//		}
//		…
//	}
//
// The error is that of [Load].
func Unused(file string) ([]*Event, error) {
	x, err := expectations.of(file)
	if err != nil {
		return nil, err
	}
	return x.unused(), nil
}

func withHint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, errors.New("a relative name is looked for in the directory of the test's package"))
	}
	return err
}

// expectations are the plans of this process's tests, and what was held against them.
var expectations = &registry{plans: map[string]*expectation{}}

type registry struct {
	mu    sync.Mutex // guards plans
	plans map[string]*expectation
}

type expectation struct {
	plan *Plan
	mu   sync.Mutex // guards used
	used map[*Event]int
}

// of returns the plan of a file, which it reads if it has not yet.
func (r *registry) of(file string) (*expectation, error) {
	path, err := filepath.Abs(file) // a test may change its directory
	if err != nil {
		path = file
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.plans[path]; x != nil {
		return x, nil
	}
	p, err := Load(file)
	if err != nil {
		return nil, err
	}
	x := &expectation{plan: p, used: map[*Event]int{}}
	r.plans[path] = x
	return x, nil
}

func (x *expectation) count(r *Report) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for e, n := range r.used {
		x.used[e] += n
	}
}

func (x *expectation) unused() []*Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	var unused []*Event
	for _, e := range x.plan.events {
		if x.used[e] == 0 {
			unused = append(unused, e)
		}
	}
	return unused
}
