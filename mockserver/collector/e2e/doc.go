// Package e2e tests the collector as a process: the real binary, real sockets, kill -9. The
// command go test ./e2e runs short versions of the tests. The command make durable, or an
// environment variable, selects the full length:
//
//	COLLECTOR_KILLS=20 go test -v -run Kill ./e2e       # kills under load
//	COLLECTOR_RETRY_AFTER_KILLS=10 go test -v -run RetryAfter ./e2e # kills during a pause
//	COLLECTOR_RELAY_KILLS=40 go test -v -run Relay ./e2e    # kills of two collectors that are connected by a relay
//	COLLECTOR_TRANSFORM_KILLS=20 go test -v -run Transform ./e2e # kills while calls are transformed
//	COLLECTOR_CLUSTER_KILLS=12 go test -v -run Cluster ./e2e
//	SYNC_KILLS=100 go test -v -run AudienceSurvivesKills ./e2e    # kills during list syncs
//	MEMBERS=1000000 go test -v -run LargeAudience ./e2e      # memory use of a list
//
// The tests mostly wait, and run in parallel. Tests of full disks need Linux and permission to
// mount a file system. They are skipped otherwise.
package e2e
