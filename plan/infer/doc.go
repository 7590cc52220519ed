// Package infer makes a tracking plan of calls that were seen.
package infer
