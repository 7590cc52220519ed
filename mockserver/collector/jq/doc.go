// Package jq transforms webhook bodies with jq programs. Programs come from the settings of
// destinations, so they run without access to the environment, files and the network, and with limits
// of work, time, memory and output.
//
// Among the languages with an interpreter in Go, jq was compared with Expr and CEL. These two end by
// design and limit their cost, so they would need no guards. But neither can change or remove a nested
// field without naming the values around it, which most transformations do; jq has |= and del. A filter
// (select, empty) is part of jq, and many operators already know it.
//
// An instruction of the interpreter can take long or create a large value. Therefore [Compile] adds a
// guard to each operator and function, which charges the budget of the run for the size of its input. A
// few functions that can create large values from small ones are not available. The work of a program is
// the same on each machine, so that a busy machine does not fail calls. A limit of the time, after which
// the call is retried, protects the collector if a guard is not accurate.
//
//   - jq.go: Compile, and a run
//   - decode.go: the input of a run
//   - budget.go: the limits of a run
//   - guard.go: the guards that Compile adds
package jq
