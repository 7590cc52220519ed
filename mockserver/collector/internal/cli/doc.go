// Package cli implements the command collector.
//
// Commands either run a collector with package service, or call the admin API of a running collector.
// The exit code is 2 for an invalid command line and 1 for all other errors. Error messages tell the
// user how to fix the problem.
//
// Start with root.go, which lists the commands, api.go, which sends requests, and output.go and
// table.go, which print data and tables. mcptools.go contains the tools of collector mcp.
package cli
