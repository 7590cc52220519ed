// Package jq transforms webhook bodies with jq programs. Programs come from the settings of
// destinations. They cannot access the environment, files or the network, and their work, time,
// memory and output are limited.
//
// The alternatives were Expr and CEL. Their programs always end and have a limited cost, so they would
// need no guards. But to change or remove a nested field, a program has to list the fields next to it.
// Most transforms change nested fields, and jq has |= and del for this purpose. A jq program can also
// filter calls (select, empty), and many users already know the language.
//
// A single instruction of the interpreter can take long or create a large value. Therefore [Compile]
// adds a guard to each operator and function. A guard charges the budget of the run for the size of the
// input. A few functions that can create large values from small ones are not available. The work of a
// program is the same on each machine, so a busy machine does not fail calls. The time limit, after
// which the call is retried, protects the collector if a guard is not accurate.
//
//   - jq.go: Compile, and a run
//   - decode.go: the input of a run
//   - budget.go: the limits of a run
//   - guard.go: the guards that Compile adds
package jq
