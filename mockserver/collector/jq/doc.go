// Package jq transforms webhook bodies with jq programs. Programs come from the settings of
// destinations, so they run without access to the environment, files and the network, and with limits
// of work, time, memory and output.
//
// The interpreter is gojq, because many operators know jq, and because it checks a context before each
// instruction. Both alternatives can only return one value: expr-lang has no syntax to build an object
// from another one without naming each field, and CEL requires a schema or conversions for JSON, and has
// no reduction, so that it cannot rename fields in nested values.
//
// An instruction of the interpreter can take long or create a large value. Therefore [Compile] adds a
// guard to each operator and function, which charges the budget of the run for the size of its input. A
// few functions that can create large values from small ones are not available. The work of a program is
// the same on each machine, so that a busy machine does not fail calls. A limit of the time, after which
// the call is retried, protects the collector if a guard is not accurate.
//
//   - jq.go: Compile, and a run
//   - budget.go: the limits of a run
//   - guard.go: the guards that Compile adds
package jq
