//go:build !linux

package service

// unmapProgram is implemented only on Linux.
func unmapProgram() {}
