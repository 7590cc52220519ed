// Package e2e tests the inspector in headless Chromium. The tests are skipped without
// Chromium, unless REQUIRE_CHROMIUM=1.
//
// SCREENSHOTS is a directory for screenshots. LOAD is the duration of the load test, 5s by
// default.
package e2e
