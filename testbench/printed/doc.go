// Package printed collects what processes and logs print, for tests of all rooms that look at it while it is still being
// printed. A [Text] is safe for concurrent use; the test that makes it owns it.
package printed
