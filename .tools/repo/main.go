// Command repo checks the modules of this repository:
//
//	repo api PATTERN…                      prints the public API
//	repo typecheck GOOS/GOARCH,… PATTERN…  checks types on several platforms
//	repo proxy DIRECTORY VERSION MODULE…   publishes modules for GOPROXY=file://DIRECTORY
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
)

// errFailed means that the errors are already printed.
var errFailed = errors.New("failed")

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "api":
		return printAPI(args[1:])
	case len(args) > 2 && args[0] == "typecheck":
		return typecheck(args[1], args[2:])
	case len(args) > 3 && args[0] == "proxy":
		for _, dir := range args[3:] {
			if err := publish(args[1], args[2], dir); err != nil {
				return fmt.Errorf("%s: %w", dir, err)
			}
		}
		return nil
	}
	return errors.New("usage: repo api PATTERN…, repo typecheck GOOS/GOARCH,… PATTERN…, or repo proxy DIRECTORY VERSION MODULE…")
}
