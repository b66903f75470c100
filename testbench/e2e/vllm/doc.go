// Package vllm tests Plimsoll against real vLLM servers on the CPU, with a tiny model of random weights.
//
//	engine.sh           installs server and model once, outside the tree (6.2 GB); becomes a server
//	make_tiny_model.py  makes the model, the same bytes everywhere; its tokenizer is tiny-tokenizer
//	e2e_test.go         the test, with build tag e2e (make e2e-vllm); needs bin/plimsoll
//
//	client ──HTTP──▶ bin/plimsoll ──┬──▶ vLLM a, asked at /v1/completions
//	                                └──▶ vLLM b, started with --enable-scale-out and asked at /inference/v1/generate
//
// The model says nothing sensible, but greedily the same at every run, so that answers can be compared with the engine's
// own. The test owns the processes it starts and ends them by their ID; the engine core that outlives a killed server too.
package vllm
