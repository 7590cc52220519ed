// Package expect compares calls with the expectations of a test and explains unmet
// expectations with the nearest call.
//
// [Parse] reads expectations from a decoded JSON or YAML document and reports each mistake
// with its path. [Checker.Add] counts a call, [Checker.Status] returns whether the
// expectations hold, and [Checker.Report] explains the result. Callers add calls in order of
// arrival.
//
// A Checker stores counts but no calls. It is not safe for concurrent use.
package expect
