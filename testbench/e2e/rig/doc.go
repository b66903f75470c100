// Package rig starts real processes for the end-to-end tests and talks to them: engines, bin/plimsoll, their HTTP.
//
//	testbench/e2e/llamacpp, testbench/e2e/vllm ──▶ rig ──▶ engine.sh run PORT, bin/plimsoll serve --replica ...
//
// It is built with tag e2e only. A [Process] ends with the test that started it, by its ID. Waiting is by polling a
// condition; no assertion depends on how fast the machine is.
package rig
