// Package failover proves, over real sockets and the adapter for vLLM, that whatever way a server ends a stream in, its clients
// get their whole answers. It holds tests alone.
//
//	actors.System ──engine/vllm──▶ saboteur ──▶ testbench/fakeengine     (three of them)
//	                                  └ breaks off the stream of one attempt as real servers were seen to
package failover
