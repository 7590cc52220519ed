// Command nemesis attacks the collector as disks, kernels, clocks and networks do,
// and counts what becomes of each call that was answered 200.
//
// It needs root and Linux. The package disk makes disks that fail; to have one by
// hand:
//
//	go build -o /tmp/nemesis .
//
//	/tmp/nemesis disk serve /tmp/bad              # stays; mounts /tmp/bad/mnt
//	/tmp/nemesis disk serve -fs xfs -seed 7 /tmp/bad
//
// and, elsewhere, meanwhile:
//
//	/tmp/nemesis disk tell /tmp/bad fail write data count=3
//	/tmp/nemesis disk tell /tmp/bad fail sync     # until heal
//	/tmp/nemesis disk tell /tmp/bad heal
//	/tmp/nemesis disk tell /tmp/bad unplug        # all fails; kill the programs now
//	/tmp/nemesis disk tell /tmp/bad cut           # the power: mounts what is left
//	/tmp/nemesis disk tell /tmp/bad help          # all commands
//
// It unmounts and removes the disk when it is told to close, is interrupted or dies.
package main
