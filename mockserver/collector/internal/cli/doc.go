// Package cli implements the command collector.
//
// Commands either run a collector with package service, or call the admin API of a running collector.
// Error messages tell the user how to fix the problem. Main documents the exit codes.
//
// Start with root.go, which lists the commands, api.go, which sends requests, and output.go and
// table.go, which print data and tables. mcptools.go contains the tools of collector mcp.
package cli
