//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "nemesis: this needs Linux: its disks, networks and clocks are the kernel's")
	os.Exit(2)
}
