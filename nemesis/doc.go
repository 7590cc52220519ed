// Command nemesis tests the collector with faults of disks, kernels, clocks and networks. The
// scenarios are tests. They account for each call that received a 200 response.
//
// The tests need root and Linux. Package disk creates faulty disks. To use one manually:
//
//	go build -o /tmp/nemesis .
//
//	/tmp/nemesis disk serve /tmp/bad              # keeps running; mounts /tmp/bad/mnt
//	/tmp/nemesis disk serve -fs xfs -seed 7 /tmp/bad
//
// Control it from another terminal:
//
//	/tmp/nemesis disk tell /tmp/bad fail write data count=3
//	/tmp/nemesis disk tell /tmp/bad fail sync     # until heal
//	/tmp/nemesis disk tell /tmp/bad heal
//	/tmp/nemesis disk tell /tmp/bad unplug        # everything fails; kill the programs now
//	/tmp/nemesis disk tell /tmp/bad cut           # power cut; mounts the remaining data
//	/tmp/nemesis disk tell /tmp/bad help          # all commands
//
// The disk is unmounted and removed after the command close, an interrupt, or a crash.
package main
