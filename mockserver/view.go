package mockserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/baseline"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/event"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/expect"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// WaitTimeout is how long Expect, ExpectN, and Wait with a context without deadline wait,
// unless [View.Within] sets another limit.
const WaitTimeout = 10 * time.Second

// A View shows the calls a server has received, from all sources or from one. Its methods
// are safe for concurrent use.
type View struct {
	engine     *engine.Collector
	requests   *faults // faults of requests to the collector
	deliveries *faults
	source     string // the view's source; empty for all
	timeout    time.Duration
	cleared    *sync.Map // watermarks by source name
}

// Within returns a view with another time limit: its methods Expect, ExpectN and Wait wait
// for at most d instead of [WaitTimeout].
//
//	srv.Within(time.Minute).Expect(t, mockserver.OfEvent("Report Sent"))
func (v View) Within(d time.Duration) View {
	v.timeout = d
	return v
}

// A watermark contains the numbers of the last call and the last rejection before a
// Clear. Numbering starts at 1.
type watermark struct{ call, rejection int64 }

func (v View) clearedUpTo(source string) watermark {
	mark, _ := v.cleared.Load(source)
	cleared, _ := mark.(watermark)
	return cleared
}

// Source returns a view of the calls with a write key, so that tests can share a server:
//
//	srv := server.Source("key-of-this-test")
//
// Its Clear and its faults do not affect other sources.
func (v View) Source(writeKey string) View {
	name, known := v.engine.SourceOf(writeKey)
	if !known {
		name = text.Redact(writeKey) // the source does not exist; the view stays empty
	}
	v.source = name
	return v
}

func (v View) shows(r *tracking.Record) bool {
	return (v.source == "" || r.Call.Source == v.source) && r.Seq > v.clearedUpTo(r.Call.Source).call
}

// Calls returns the accepted calls that every match selects, in order of arrival.
func (v View) Calls(match ...Match) []tracking.Call {
	return callsOf(v.Records(match...))
}

// Bodies yields the JSON of each accepted call, in the order of Calls. Module plan uses
// it to check calls against a tracking plan. The bytes must not be modified.
//
//	plan.Expect(t, srv, "plan.yaml")
func (v View) Bodies() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, call := range v.Calls() {
			if !yield(call.Body) {
				return
			}
		}
	}
}

func callsOf(records []tracking.Record) []tracking.Call {
	var calls []tracking.Call
	for _, r := range records {
		calls = append(calls, r.Call)
	}
	return calls
}

// Records returns the same calls as Calls, with their requests to webhooks and their
// state at each destination.
func (v View) Records(match ...Match) []tracking.Record {
	picks := every(match)
	return v.engine.History().Records(func(r *tracking.Record) bool { return v.shows(r) && picks(r) })
}

// Call returns the record of the call with a messageId and reports whether it exists. If
// several sources sent the same messageId, it returns the first.
func (v View) Call(messageID string) (record tracking.Record, ok bool) {
	if records := v.Records(WithID(messageID)); len(records) > 0 {
		return records[0], true
	}
	return tracking.Record{}, false
}

// Rejections returns the rejected calls with the reasons.
func (v View) Rejections() []tracking.Rejection {
	all, first := v.engine.History().Rejections()
	var shown []tracking.Rejection
	for i, r := range all {
		if (v.source == "" || r.Source == v.source) && first+int64(i) > v.clearedUpTo(r.Source).rejection {
			shown = append(shown, r)
		}
	}
	return shown
}

// Wait waits until n calls that every match selects have arrived, and returns all of
// them, possibly more than n. If ctx ends first, the error lists the received calls and
// explains how the closest one differs. If ctx has no deadline, Wait waits for
// [WaitTimeout] or the duration set by [View.Within].
func (v View) Wait(ctx context.Context, n int, match ...Match) ([]tracking.Call, error) {
	records, err := v.wait(ctx, n, match)
	return callsOf(records), err
}

// wait returns the records in the state in which they were selected. They may have changed
// since.
func (v View) wait(ctx context.Context, n int, match []Match) ([]tracking.Record, error) {
	if err := checkUsable(match); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, v.timeout)
		defer cancel()
	}
	picks := every(match)
	records, err := v.engine.History().Await(ctx, n, func(r *tracking.Record) bool { return v.shows(r) && picks(r) })
	if err != nil {
		err = v.explain(n, len(records), match, err)
	}
	return records, err
}

// explain describes why the expected calls did not arrive.
func (v View) explain(n, got int, match []Match, cause error) error {
	all := v.Records()
	var b strings.Builder
	fmt.Fprintf(&b, "mockserver: waited for %s", text.Plural(n, "call", "calls"))
	if !errors.Is(cause, context.DeadlineExceeded) {
		fmt.Fprintf(&b, " until %v", cause)
	}
	if len(all) == 0 {
		b.WriteString("; received none")
	} else {
		fmt.Fprintf(&b, "; received %d matching of %d", got, len(all))
	}
	if record, why := nearest(all, match); len(why) > 0 {
		fmt.Fprintf(&b, "\n  nearest: %s\n    %s", expect.Title(&record.Call), strings.Join(why, "\n    "))
	}
	listCalls(&b, "received", all)
	others := v.explainOthers(&b)
	if err := v.engine.Ready(context.Background()); err != nil {
		fmt.Fprintf(&b, "\n  the server is not ready: %v", err)
	} else if len(all) == 0 && !others {
		b.WriteString("\n  received nothing else either: was the client flushed or closed, and is its Endpoint this server's URL?")
	}
	return &waitError{b.String(), cause}
}

// maxListed limits the number of calls in an error.
const maxListed = 20

// listCalls writes one line per call, up to a limit.
func listCalls(b *strings.Builder, word string, records []tracking.Record) {
	for i := range records[:min(len(records), maxListed)] {
		fmt.Fprintf(b, "\n  %s: %s", word, expect.Title(&records[i].Call))
	}
	if len(records) > maxListed {
		fmt.Fprintf(b, "\n  and %d more", len(records)-maxListed)
	}
}

// explainOthers lists the other received calls and reports whether there are any.
func (v View) explainOthers(b *strings.Builder) bool {
	before := b.Len()
	for _, r := range last(v.Rejections(), maxListed) {
		fmt.Fprintf(b, "\n  rejected: %s: %s: %.200s", r.Code, r.Message, r.Body)
	}
	refusals := v.engine.History().Refusals()
	all := len(refusals)
	refusals = slices.DeleteFunc(refusals, func(r event.Refusal) bool {
		return v.source != "" && r.Source != "" && r.Source != v.source
	})
	for _, r := range last(refusals, maxListed) {
		fmt.Fprintf(b, "\n  refused: %s %s with status %d: %s: %s", r.Method, r.Path, r.Status, r.Code, r.Message)
	}
	if others := all - len(refusals); others > 0 {
		fmt.Fprintf(b, "\n  refused %s with other write keys", text.Plural(others, "request", "requests"))
	}
	if v.source != "" {
		server := View{engine: v.engine, cleared: v.cleared}
		if others := server.Records(func(r *tracking.Record) bool { return r.Call.Source != v.source }); len(others) > 0 {
			fmt.Fprintf(b, "\n  received %s with other write keys", text.Plural(len(others), "call", "calls"))
		}
	}
	if met, left := v.requests.metBy(v.source); met > 0 {
		fmt.Fprintf(b, "\n  faults affected %s to the collector and wait for %d more", text.Plural(met, "request", "requests"), left)
	}
	return b.Len() > before
}

// waitError is an error with a long explanation. It wraps the cause.
type waitError struct {
	text  string
	cause error
}

func (e *waitError) Error() string { return e.text }
func (e *waitError) Unwrap() error { return e.cause }

// Expect waits up to [WaitTimeout] for a call that every match selects, and returns the
// first such record. If none arrives, it fails the test and lists the received calls.
func (v View) Expect(t TB, match ...Match) tracking.Record {
	t.Helper()
	records, err := v.wait(context.Background(), 1, match)
	if err != nil {
		t.Fatalf("%v", err)
		return tracking.Record{}
	}
	return records[0]
}

// ExpectN waits up to [WaitTimeout] for n calls that every match selects, and returns
// their records. It fails the test if fewer or more arrived. It does not wait for
// additional calls, so call it after the code under test has finished and flushed.
func (v View) ExpectN(t TB, n int, match ...Match) []tracking.Record {
	t.Helper()
	records, err := v.wait(context.Background(), n, match)
	if err == nil && len(records) > n {
		err = tooMany(records, n)
	}
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	return records
}

// ExpectNone fails the test if a call has arrived that every match selects. It does not
// wait, so call it after the code under test has finished and flushed.
func (v View) ExpectNone(t TB, match ...Match) {
	t.Helper()
	if err := checkUsable(match); err != nil {
		t.Fatalf("%v", err)
		return
	}
	if records := v.Records(match...); len(records) > 0 {
		t.Fatalf("%v", tooMany(records, 0))
	}
}

// tooMany returns an error that shows the calls beyond the first n.
func tooMany(records []tracking.Record, n int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "mockserver: want %s, received %d matching", text.Plural(n, "call", "calls"), len(records))
	listCalls(&b, "unexpected", records[n:])
	fmt.Fprintf(&b, "\n  first unexpected call: %s", excerpt(&records[n].Call))
	return errors.New(b.String())
}

// Clear discards all received and rejected calls, so that a test can start over. A call
// with an already used messageId is accepted again. A concurrent Wait continues with the
// calls that arrive after Clear. Deliveries continue, and faults remain; see ClearFaults.
func (v View) Clear() {
	v.requests.forgetMet(v.source)
	if v.source == "" {
		v.engine.ForgetAll()
		return
	}
	rejections, first := v.engine.History().Rejections()
	mark := watermark{v.clearedUpTo(v.source).call, first + int64(len(rejections)) - 1}
	records := v.Records()
	if len(records) > 0 {
		mark.call = records[len(records)-1].Seq
	}
	v.cleared.Store(v.source, mark) // before waiting callers check again
	v.engine.Forget(records)
}

// Fail applies faults to the next requests to the collector, one after another. The
// faults of a single source's view apply only to requests with the source's write key in
// the Authorization header.
func (v View) Fail(f ...Fault) {
	v.requests.add(v.source, f)
}

// FailDeliveries applies faults to the next requests to webhooks, one after another. The
// faults of a single source's view apply only to deliveries of its calls.
func (v View) FailDeliveries(f ...Fault) {
	v.deliveries.add(v.source, f)
}

// ClearFaults removes all remaining faults.
func (v View) ClearFaults() {
	v.requests.clear(v.source)
	v.deliveries.clear(v.source)
}

// FaultsLeft returns the number of requests that faults will still affect. It does not
// count permanent faults.
func (v View) FaultsLeft() int {
	return v.requests.left(v.source) + v.deliveries.left(v.source)
}

func last[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// Baseline compares the received calls that every match selects with a baseline file, and fails
// the test if they differ. The file contains the calls of each user in order. IDs, times and other
// values that differ in each run are replaced with placeholders. Like ExpectNone, Baseline does
// not wait.
//
// The environment variable ANALYTICS_BASELINE updates the file:
//
//	ANALYTICS_BASELINE=record go test  # writes the file; it keeps the wildcards of an existing file
//	ANALYTICS_BASELINE=widen go test   # replaces values that differ from the file with wildcards
//
// The command collector baseline reads and writes the same files, for programs in any language;
// docs/testing.md describes them.
func (v View) Baseline(t TB, file string, match ...Match) {
	t.Helper()
	if err := v.baseline(file, match); err != nil {
		t.Fatalf("mockserver: baseline: %v", err)
	}
}

func (v View) baseline(file string, match []Match) error {
	var bodies []json.RawMessage
	for _, call := range v.Calls(match...) {
		bodies = append(bodies, call.Body)
	}
	run, err := baseline.Record(bodies)
	if err != nil {
		return err
	}
	switch mode := os.Getenv("ANALYTICS_BASELINE"); mode {
	case "":
	case "record", "widen":
		return baseline.Save(file, run, mode == "widen")
	default:
		return fmt.Errorf("invalid ANALYTICS_BASELINE %s: use record or widen", text.Quote(text.MaxRepeated, mode))
	}
	want, err := baseline.Load(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist: run the test once with ANALYTICS_BASELINE=record", file)
	}
	if err != nil {
		return err
	}
	if report := baseline.Compare(run, want); !report.OK {
		return fmt.Errorf("%s: %s\n\nto accept the differences, run the test with ANALYTICS_BASELINE=record", file, report.Text())
	}
	return nil
}
