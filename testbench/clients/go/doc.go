// Package clients runs OpenAI's official Go client against a running plimsoll serve. It is a module of its own, so that
// the client is no dependency of the product. testbench/clients/run.sh starts the server and calls it.
package clients
