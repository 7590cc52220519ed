// Package expect holds calls against what a test expects of them, and says of what does
// not hold which call came nearest, and where it differs. It knows no HTTP and no history:
// whoever has the calls shows each to a [Checker], in the order in which they came.
//
// [Parse] reads expectations from a decoded document, JSON or YAML, and reports every
// mistake with its path. [Checker.Add] counts, [Checker.Status] says whether the
// expectations hold so far, and [Checker.Report] explains.
//
// A Checker keeps counts, and no calls: what it takes does not grow with them. It is for
// one goroutine.
//
// # Files
//
//  1. report.go: what does not hold, and what came nearest
//  2. check.go: calls are counted
//  3. parse.go: a document is read
//  4. expectation.go: which calls one expectation takes
//  5. matcher.go: what stands for a value
//  6. problem.go: what is wrong with a document
//  7. call.go: a call that came
package expect
