// Package deploy holds what brings the command collector to those who run it, and the
// tests of that.
//
//   - Dockerfile, the image; compose.yaml, with it on one machine, and kubernetes, on a
//     cluster
//   - packages, what a deb and an rpm have beside the program; ../.goreleaser.yaml says how
//     they and the archives are made, and the tests make the deb of what it says
//
// Tests that need programs which are not on every machine (buildah, dpkg, systemd-analyze,
// node) are skipped without them, and fail without them where REQUIRE_BUILDAH, REQUIRE_DPKG,
// REQUIRE_SYSTEMD or REQUIRE_NODE is set, and so on for the programs of ../examples. Images need a root who may mount; a deb is
// installed only where REQUIRE_DPKG asks for it. They are for Linux alone.
package deploy
