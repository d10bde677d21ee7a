// Package browser opens the dashboard in Chromium: its tests, and the command that makes the pictures of the
// documentation.
//
// What the pages show comes from a program that runs meanwhile, a [Shop] on a PostgreSQL of its own: it uses all four
// domains, some of its handlers fail, and some do not return. [Pages] lists every page. A page that is added there is
// opened by all tests, checked by axe-core, and has pictures.
//
// Chromium and axe-core are installed by `.ci/browser install`. Without them the tests are skipped.
package browser
