// Package e2e holds tests of the command as it is run: the real binary, real
// sockets, kill -9. They run in a short form with go test ./e2e; the full length
// is a target of the Makefile, or an environment variable:
//
//	COLLECTOR_KILLS=20 go test -v -run Kill ./e2e       # kills under load
//	COLLECTOR_CLUSTER_KILLS=12 go test -v -run Cluster ./e2e
//
// They need Linux. What needs more (a file system that can be filled) is skipped
// where it is not there, and says so.
package e2e
