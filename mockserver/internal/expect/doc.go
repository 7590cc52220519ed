// Package expect compares calls with the expectations of a test. If an expectation is not met, it
// describes the nearest call.
//
// [Parse] reads expectations from a decoded JSON or YAML document and reports each mistake
// with its path. [Checker.Add] counts a call, [Checker.Status] returns whether the
// expectations are met, and [Checker.Report] explains the result. Callers add calls in order of
// arrival.
//
// A Checker stores counts but no calls. It is not safe for concurrent use.
package expect
