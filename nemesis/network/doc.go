// Package network makes machines that are joined by a switch of their own, and cuts
// them off from each other.
//
// A [Host] is a network namespace of the kernel with one interface. The interfaces
// end in this process, which passes frames on as a switch does, but for those
// between hosts that are cut off from each other. Nothing is told of a cut: frames
// vanish, as with a broken cable behind a switch or a rule in a firewall. This
// process has an interface on the switch as well, so that it reaches all hosts at
// any time.
//
// It needs root, Linux, /dev/net/tun and the program ip.
package network
