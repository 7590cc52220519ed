package mockserver

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/engine"
	"github.com/seed-45eadc4a/analytics-go/mockserver/internal/text"
	"github.com/seed-45eadc4a/analytics-go/mockserver/tracking"
)

// WaitTimeout is how long Expect and ExpectN wait, and Wait where its context has no
// deadline, unless [View.Within] says otherwise.
const WaitTimeout = 10 * time.Second

// A View shows what a server got: all of it, or what came from one source. Its
// methods may be called from many goroutines at once.
type View struct {
	engine     *engine.Collector
	requests   *faults // to the collector
	deliveries *faults
	source     string // of one source; empty: of all
	timeout    time.Duration
	cleared    *sync.Map // from a source's name to its watermark
}

// Within returns the same view whose Expect, ExpectN and Wait wait for at most d, in
// place of [WaitTimeout]:
//
//	srv.Within(time.Minute).Expect(t, mockserver.OfEvent("Report Sent"))
func (v View) Within(d time.Duration) View {
	v.timeout = d
	return v
}

// A watermark is up to where the calls and the rejections of a source are not shown
// any more: they are counted from 1.
type watermark struct{ call, rejection int64 }

// clearedUpTo returns the watermark of a source.
func (v View) clearedUpTo(source string) watermark {
	mark, _ := v.cleared.Load(source)
	cleared, _ := mark.(watermark)
	return cleared
}

// Source returns a view of the calls that come with a write key, so that tests
// that share a server do not see each other's:
//
//	srv := server.Source("key-of-this-test")
//
// Its Clear and its faults leave other sources alone.
func (v View) Source(writeKey string) View {
	name, known := v.engine.SourceOf(writeKey)
	if !known {
		name = text.Redact(writeKey) // nothing will come
	}
	v.source = name
	return v
}

// shows reports whether the view shows a record.
func (v View) shows(r *tracking.Record) bool {
	return (v.source == "" || r.Call.Source == v.source) && r.Seq > v.clearedUpTo(r.Call.Source).call
}

// Calls returns the calls that were accepted and that every match picks, in the
// order in which they came.
func (v View) Calls(match ...Match) []tracking.Call {
	return callsOf(v.Records(match...))
}

// Bodies yields the JSON of each call that was accepted, as Calls has it: what the
// module plan holds against a tracking plan. It must not be changed.
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

// Records returns the same calls with what became of them: each request to a
// webhook, and where they stand with each destination.
func (v View) Records(match ...Match) []tracking.Record {
	picks := every(match)
	return v.engine.History().Records(func(r *tracking.Record) bool { return v.shows(r) && picks(r) })
}

// Call returns the call with a messageId, with what became of it. ok is false if
// none came. Of calls with the same messageId from several sources it is the first.
func (v View) Call(messageID string) (record tracking.Record, ok bool) {
	if records := v.Records(WithID(messageID)); len(records) > 0 {
		return records[0], true
	}
	return tracking.Record{}, false
}

// Rejections returns the calls that came and were not taken, with their reasons.
func (v View) Rejections() []tracking.Rejection {
	all, first := v.engine.History().NumberedRejections()
	var shown []tracking.Rejection
	for i, r := range all {
		if (v.source == "" || r.Source == v.source) && first+int64(i) > v.clearedUpTo(r.Source).rejection {
			shown = append(shown, r)
		}
	}
	return shown
}

// Wait waits until n calls have come that every match picks, and returns those
// that it has by then, which may be more. Its error, when ctx ends first, tells
// what did come, and of the call that came nearest why it was not picked. If ctx
// has no deadline, Wait waits for [WaitTimeout], or what [View.Within] says.
func (v View) Wait(ctx context.Context, n int, match ...Match) ([]tracking.Call, error) {
	records, err := v.wait(ctx, n, match)
	return callsOf(records), err
}

// wait returns the records as they were when they were picked: they may have
// changed since.
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

// explain says why a wait was in vain.
func (v View) explain(n, got int, match []Match, cause error) error {
	all := v.Records()
	var b strings.Builder
	fmt.Fprintf(&b, "mockserver: waited for %s", text.Plural(n, "call", "calls"))
	if !errors.Is(cause, context.DeadlineExceeded) {
		fmt.Fprintf(&b, " until %v", cause)
	}
	if len(all) == 0 {
		b.WriteString(", and none came")
	} else {
		fmt.Fprintf(&b, ", got %d that match of %d in all", got, len(all))
	}
	if record, why := nearest(all, match); len(why) > 0 {
		fmt.Fprintf(&b, "\n  nearest: %s\n    %s", summary(&record.Call), strings.Join(why, "\n    "))
	}
	listCalls(&b, "came", all)
	others := v.explainOthers(&b)
	if len(all) == 0 && !others {
		b.WriteString("\n  nor did anything else: was the client flushed or closed, and does it send to this server's URL?")
	}
	return &waitError{b.String(), cause}
}

// listCalls writes a line for each of the first calls.
func listCalls(b *strings.Builder, word string, records []tracking.Record) {
	for i := range records[:min(len(records), maxListed)] {
		fmt.Fprintf(b, "\n  %s: %s", word, summary(&records[i].Call))
	}
	if len(records) > maxListed {
		fmt.Fprintf(b, "\n  and %d more", len(records)-maxListed)
	}
}

// explainOthers writes what else came, and reports whether anything did.
func (v View) explainOthers(b *strings.Builder) bool {
	before := b.Len()
	for _, r := range last(v.Rejections(), maxListed) {
		fmt.Fprintf(b, "\n  not taken: %s: %s: %.200s", r.Code, r.Message, r.Body)
	}
	for _, r := range last(v.engine.History().Refusals(), maxListed) {
		fmt.Fprintf(b, "\n  refused: %s %s answered %d: %s: %s", r.Method, r.Path, r.Status, r.Code, r.Message)
	}
	if v.source != "" {
		server := View{engine: v.engine, cleared: v.cleared}
		if others := server.Records(func(r *tracking.Record) bool { return r.Call.Source != v.source }); len(others) > 0 {
			fmt.Fprintf(b, "\n  %s came with other write keys than this view's", text.Plural(len(others), "call", "calls"))
		}
	}
	if met, left := v.requests.metBy(v.source); met > 0 {
		fmt.Fprintf(b, "\n  faults befell %s to the collector, and wait for %d more", text.Plural(met, "request", "requests"), left)
	}
	return b.Len() > before
}

// waitError says at length why a wait was in vain, and wraps the cause.
type waitError struct {
	text  string
	cause error
}

func (e *waitError) Error() string { return e.text }
func (e *waitError) Unwrap() error { return e.cause }

// Expect waits, for [WaitTimeout] at most, until a call has come that every match
// picks, and returns it with what became of it: the first, if there are several. It
// ends the test otherwise, with what did come.
func (v View) Expect(t TB, match ...Match) tracking.Record {
	t.Helper()
	records, err := v.wait(context.Background(), 1, match)
	if err != nil {
		t.Fatalf("%v", err)
		return tracking.Record{}
	}
	return records[0]
}

// ExpectN waits, for [WaitTimeout] at most, until n calls have come that every match
// picks, and returns them with what became of them. It ends the test if fewer came,
// or more. It does not wait for more: call it when what the test does is done, and
// was flushed.
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

// ExpectNone ends the test if a call has come that every match picks. It does not
// wait: call it when what the test does is done, and was flushed.
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

// tooMany says which calls came beyond the n that should, and shows the first.
func tooMany(records []tracking.Record, n int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "mockserver: want %s, got %d that match", text.Plural(n, "call", "calls"), len(records))
	listCalls(&b, "too many", records[n:])
	fmt.Fprintf(&b, "\n  the first that is too many: %s", excerpt(&records[n].Call))
	return errors.New(b.String())
}

// Clear forgets the calls that came, also those that were not taken, so that a test
// can begin anew. One that is sent again with the same messageId is then taken
// again. A Wait that goes on counts from then on what comes after. Deliveries go on,
// and faults stay, see ClearFaults.
func (v View) Clear() {
	v.requests.forgetMet(v.source)
	if v.source == "" {
		v.engine.ForgetAll()
		return
	}
	rejections, first := v.engine.History().NumberedRejections()
	mark := watermark{v.clearedUpTo(v.source).call, first + int64(len(rejections)) - 1}
	records := v.Records()
	if len(records) > 0 {
		mark.call = records[len(records)-1].Seq
	}
	v.cleared.Store(v.source, mark) // before those who wait look again
	v.engine.Forget(records)
}

// Fail lets faults befall the next requests to the collector, each in turn. Those
// of a view of one source befall only requests whose Authorization has the
// source's write key.
func (v View) Fail(f ...Fault) {
	v.requests.add(v.source, f)
}

// FailDeliveries lets faults befall the next requests to webhooks, each in turn.
// Those of a view of one source befall only the deliveries of its calls.
func (v View) FailDeliveries(f ...Fault) {
	v.deliveries.add(v.source, f)
}

// ClearFaults drops the faults that are left, and those that stand.
func (v View) ClearFaults() {
	v.requests.clear(v.source)
	v.deliveries.clear(v.source)
}

// FaultsLeft returns how many more requests faults wait for. Faults that stand do
// not count.
func (v View) FaultsLeft() int {
	return v.requests.left(v.source) + v.deliveries.left(v.source)
}

// last returns the last n elements.
func last[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// Golden holds the calls that came, and that every match picks, against a file
// of an earlier run. It ends the test if they differ, with the differences, or if
// there is no such file. As ExpectNone, it does not wait.
func (v View) Golden(t TB, file string, g Golden, match ...Match) {
	t.Helper()
	if err := v.golden(file, g, match); err != nil {
		t.Fatalf("%v", err)
	}
}

func (v View) golden(file string, g Golden, match []Match) error {
	got, err := g.list(v.Calls(match...))
	if err != nil {
		return err
	}
	if g.Update {
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, g.encode(got), 0o644)
		}
		if err != nil {
			return fmt.Errorf("mockserver: golden file: %w", err)
		}
		return nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("mockserver: there is no golden file %s yet: run the test once with Golden.Update", file)
	}
	if err != nil {
		return fmt.Errorf("mockserver: golden file: %w", err)
	}
	want, err := decodeGolden(text)
	if err != nil {
		return fmt.Errorf("mockserver: golden file %s: %w", file, err)
	}
	if lines := g.diff(got, want); len(lines) > 0 {
		return fmt.Errorf("mockserver: the calls differ from the golden file %s; if that is meant, run the test once with Golden.Update:\n  %s",
			file, strings.Join(lines, "\n  "))
	}
	return nil
}
