// Package infer creates a tracking plan from observed calls. An [Inference] collects
// calls in bounded memory and writes a plan that all of them match. Such a plan is a
// first draft for its authors.
package infer
