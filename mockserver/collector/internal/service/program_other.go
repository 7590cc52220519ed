//go:build !linux

package service

// unmapProgram does nothing: only on Linux can a program do so.
func unmapProgram() {}
