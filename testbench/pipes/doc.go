// Package pipes is a network of one listener for tests in a synctest bubble, whose clock stands still while a goroutine waits
// for a real network. What the server does not read of a connection, the client cannot send. The test that makes a [Listener]
// owns it.
package pipes
