// Package kvpub publishes KV cache events over ZeroMQ as the engines do: vLLM 0.11 to 0.32 and SGLang, live and replayed, with
// faults on request.
//
//	                     ┌────────────────────── Publisher ──────────────────────┐
//	Publish(events) ────▶│ encoder ─▶ seq ─▶ Plan (faults) ─▶ subscriber's queue ─┼─▶ PUB: topic, seq, payload
//	                     │             │                                          │
//	                     │             └────▶ ring of the last BufferSteps ───────┼─▶ ROUTER: the batches from a seq on
//	                     └────────────────────────────────────────────────────────┘
//
// testbench/fakeengine calls it (so does `plimsoll sim` through it), tests of the subscriber's side start publishers of their
// own. A [Publisher] owns its sockets, its ring and its goroutines: one for each socket, one or two for each connection, all
// ended by [Publisher.Close].
//
//	p, err := kvpub.New(kvpub.DefaultConfig(), kvpub.Deps{Now: time.Now, Plan: kvpub.Calm{}})
//	... subscribe to p.Endpoint(), ask p.ReplayEndpoint() ...
//	err = p.AwaitSubscribers(ctx, 1)
//	p.Publish(events)
//
// # As the engines do
//
//   - Three frames: topic, sequence number (8 bytes, big-endian, from 0 in each life), msgpack. Every key that vLLM 0.32 sends
//     is sent, in its order, and integers have their shortest form: payloads equal the recorded ones byte for byte.
//   - Nothing is sent to who has not subscribed; nothing but batches is sent.
//   - A replay answers requests of two frames (empty, sequence number) and ignores all others. It ends with sequence number -1.
//   - A life that ends takes its connections, its ring and its numbers with it.
//   - A salt stands on the first block of a sequence only, an adapter on every block; a removal of vLLM names one block.
//
// # Where they differ
//
//   - vLLM blocks its engine when the queue to its publisher is full. Here publishing never blocks: a subscriber that is HWM
//     batches behind loses new ones, which it sees as a hole in the numbers, and can ask for again.
//   - While an engine is down its ports stay open, and close each connection at once.
//
// # Sockets
//
// zmtp.go speaks ZMTP 3.0 over TCP. The sockets of go-zeromq/zmq4 hold up all subscribers behind the slowest, and its
// connections make room for whatever size a peer claims; here it is the counterpart in the tests, and what the product's
// subscriber is made of, so that each of the two is checked against an implementation that is not its own.
//
// # Invariants
//
// Memory is bounded: BufferSteps batches in the ring, HWM in each of at most Peers queues (they share the bytes), small
// requests. The sequence numbers of a life have no hole except where [Lose] or [Publisher.Skip] makes one.
package kvpub
