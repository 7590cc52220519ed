// Package jq transforms webhook bodies with jq programs. Programs come from the settings of
// destinations, so they run without access to the environment, files and the network, and with limits
// of time, memory and output.
//
// The interpreter checks its context before each instruction, but an instruction can take long or
// create a large value. Therefore [Compile] adds a size check to each operand, argument and input
// of a function, and rejects the few functions that can create large values from small ones.
//
//   - jq.go: Compile, and the limits of a run
//   - guard.go: the checks that Compile adds
package jq
