// Package datadir is the files of a data directory, as the embedded server writes them:
// their blocks, what of them is damaged or torn, and what may be cut off or written anew;
// and the files of the journal beside them: lock, marker, ballast, canary, sealed files and
// what was accepted last. No server runs while streams are checked, and none is asked. The
// format of the blocks is pinned to the server's version by a test.
package datadir
