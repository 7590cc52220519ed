package plan

import (
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"sync"
)

// A TB is the part of testing.TB that Expect uses.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Calls contains received calls. *mockserver.Server and mockserver.View implement it. Bodies
// yields the JSON of each call.
type Calls interface {
	Bodies() iter.Seq[[]byte]
}

// Expect fails the test unless there are calls and all of them match the plan in file. It
// reports every violation with its line in the plan, grouped:
//
//	srv := mockserver.RunT(t)
//	… // send calls, and close the client
//	plan.Expect(t, srv, "plan.yaml")
//
// Expect does not wait for calls: flush or close the client first. The test continues
// after a failure. Each process reads a file once. If the file is not a valid plan, every
// test that uses it fails with the problems.
func Expect(t TB, calls Calls, file string) {
	t.Helper()
	all, err := expectation(file)
	if err != nil {
		t.Errorf("%v", withHint(err))
		return
	}
	report := all.plan.NewReport()
	for body := range calls.Bodies() {
		report.Add(body)
	}
	expectations.Lock()
	for e, n := range report.used {
		all.used[e] += n
	}
	expectations.Unlock()
	switch {
	case report.empty():
		t.Errorf("plan: %v; flush or close the client before Expect", report)
	case !report.OK():
		t.Errorf("plan: %v", report)
	}
}

// Unused returns the events of a plan that no call in any [Expect] of this process
// matched, in file order. Call it after all tests:
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
// The error is an error of [Load].
func Unused(file string) ([]*Event, error) {
	all, err := expectation(file)
	if err != nil {
		return nil, err
	}
	expectations.Lock()
	defer expectations.Unlock()
	return all.Unused(), nil
}

func withHint(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, errors.New("relative paths start at the directory of the test's package"))
	}
	return err
}

// expectations contains the reports of all plans, keyed by absolute path. A report counts how
// often each entry was used.
var expectations = struct {
	sync.Mutex // guards the map and the reports
	reports    map[string]*Report
}{reports: map[string]*Report{}}

// expectation returns the report for the plan in file. The first call for a file reads it.
func expectation(file string) (*Report, error) {
	path, err := filepath.Abs(file) // an absolute path, because a test may change its working directory
	if err != nil {
		path = file
	}
	expectations.Lock()
	defer expectations.Unlock()
	if r := expectations.reports[path]; r != nil {
		return r, nil
	}
	p, err := Load(file)
	if err != nil {
		return nil, err
	}
	expectations.reports[path] = p.NewReport()
	return expectations.reports[path], nil
}
