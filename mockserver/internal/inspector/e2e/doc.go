// Package e2e tests the inspector in a real browser: headless Chromium, driven
// over its debugging protocol. Without Chromium the tests are skipped, unless
// REQUIRE_CHROMIUM=1 says that they must not be.
//
// SCREENSHOTS names a folder for pictures of every page, LOAD a duration for the
// test under load (5s by default).
package e2e
