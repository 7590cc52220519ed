// Command v3program is programs as people wrote them for version 3 of the service's
// library, with nothing but the import path changed: a web shop, a gateway, a CLI and
// others, each in a file of its own. That they compile is half of the test; the other half
// is beside them. The module bench runs the same source with version 3 itself.
//
// # Files
//
//  1. main.go: the list of programs
//  2. backend.go: a service
//  3. calls.go: each field of each message
//  4. cli.go: a command that sends what its flags say
//  5. gateway.go: a proxy for browsers
//  6. import.go: the history of users
//  7. readme.go: the shortest program
//  8. shop.go: an order
//  9. telemetry.go: a tool that reports its use
//  10. ticker.go: calls at intervals
package main

import (
	"fmt"
	"os"
)

// programs are what can be run, by name. Each sends its calls to an endpoint.
var programs = map[string]func(endpoint string) error{
	"backend":   backend,
	"calls":     calls,
	"cli":       cli,
	"gateway":   gateway,
	"import":    importUsers,
	"shop":      shop,
	"telemetry": telemetry,
	"ticker":    ticker,
}

func main() {
	if len(os.Args) != 3 || programs[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: v3program PROGRAM ENDPOINT")
		os.Exit(2)
	}
	if err := programs[os.Args[1]](os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
