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
		return errors.Join(err, errors.New("a relative name is looked for in the directory of the test's package"))
	}
	return err
}

// expectations has a report for each plan of this process's tests, by path. It counts how
// often the plan's entries were used.
var expectations = struct {
	sync.Mutex // also guards the reports
	reports    map[string]*Report
}{reports: map[string]*Report{}}

// expectation returns the report of a file's plan. It reads the file if it has not yet.
func expectation(file string) (*Report, error) {
	path, err := filepath.Abs(file) // a test may change its directory
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
