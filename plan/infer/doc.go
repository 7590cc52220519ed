// Package infer makes a tracking plan of calls that were seen, which is where a plan
// begins: an [Inference] takes calls, in bounded memory, and writes the plan that all of
// them are as.
//
// # Files
//
//  1. write.go: the plan, as YAML
//  2. infer.go: what calls have
package infer
