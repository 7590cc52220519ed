// Package deploy holds what brings the command collector to those who run it, and the
// tests of that.
//
//   - Dockerfile, the image; compose.yaml, with it on one machine, and kubernetes, on a
//     cluster
//   - packages, what a deb and an rpm have beside the program; ../.goreleaser.yaml says how
//     they and the archives are made, and the tests make the deb of what it says
//
// Tests that need programs which are not on every machine (buildah, dpkg as root,
// systemd-analyze) are skipped without them, and fail without them where REQUIRE_BUILDAH
// or REQUIRE_DPKG is set. They are for Linux alone.
package deploy
