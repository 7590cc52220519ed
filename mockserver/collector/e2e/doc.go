// Package e2e holds tests of the command as it is run: the real binary, real
// sockets, kill -9. They run in a short form with go test ./e2e; the full length
// is make durable, or an environment variable:
//
//	COLLECTOR_KILLS=20 go test -v -run Kill ./e2e       # kills under load
//	COLLECTOR_RETRY_AFTER_KILLS=10 go test -v -run RetryAfter ./e2e # kills during a pause
//	COLLECTOR_CLUSTER_KILLS=12 go test -v -run Cluster ./e2e
//	SYNC_KILLS=100 go test -v -run KilledCollectors ./e2e    # kills while lists are taken
//	MEMBERS=1000000 go test -v -run LargeAudience ./e2e      # the memory that a list takes
//
// They mostly wait, for a kill or an answer, and run side by side.
//
// Those of a disk that fills need Linux, and a file system of their own: where that
// is not allowed they are skipped, and say so.
package e2e
