// Package deploy contains the deployment of the command collector, and its tests.
//
//   - Dockerfile builds the image. compose.yaml runs it on one machine, and kubernetes on a
//     cluster.
//   - prometheus contains alerting rules with their tests, and grafana a dashboard.
//   - packages contains the additional files of the deb and rpm packages. ../.goreleaser.yaml
//     builds the packages and archives, a Homebrew cask and a Scoop manifest. ../.ci/release tags a
//     release.
//
// The tests also run the programs of ../examples, with the packages of ../testkit.
//
// A test is skipped if a program that it needs is missing: buildah, dpkg, systemd-analyze,
// promtool, node, npm, pytest, or a program of ../examples. If the program's environment variable
// is set, the test fails instead. The variables are REQUIRE_BUILDAH, REQUIRE_DPKG,
// REQUIRE_SYSTEMD, REQUIRE_PROMTOOL, REQUIRE_NODE, REQUIRE_NPM, REQUIRE_PYTEST and REQUIRE_PYBUILD.
// Image tests need root with permission to mount. A deb package is installed only if
// REQUIRE_DPKG is set. The tests run only on Linux.
package deploy
