// Package kvevents listens to what engines say of their KV caches: vLLM, SGLang and TensorRT-LLM publish every block that
// they store and evict over ZeroMQ. It subscribes, puts the batches in order, asks again for what is lost, decodes them,
// and says at every moment what its word is worth.
//
//	engine ──PUB──▶ connection ─┐                    ┌─▶ Decoder ─▶ [engine.KVBatch] ─▶ sink (the replica's feed ─▶ index)
//	                            ├─news─▶ keeper ─▶ machine
//	engine ◀─DEALER─ replay ────┘        (time)      └─▶ ask for a replay, drop it
//
// The replica's feed actor owns a [Source] and calls Subscribe; one subscription is one goroutine with the machine, and
// one for each socket. All state lies in the machine (pure: no clock, no goroutine, no I/O) and ends with the
// subscription; the simulator drives it without sockets, as a [Machine]. [Discover] finds the endpoints of an engine that tells
// them, [OffsetPort] those of a further rank.
//
// # Order and loss
//
// The batches of a process are numbered from 0. Nothing but the numbers tells of a loss or a restart, a connection does
// not tell whose it is, and block hashes are the same in every life of an engine. States are those of [engine.KVState]:
//
//	              connected: ask from 0, hold what is published
//	                 │
//	                 ▼           begins at 0, ends         hole, garbled: ask from the last good batch
//	┌────────▶ Replaying ───────────────────────▶ Live ──────────────────────────▶ Replaying ──ends──▶ Live
//	│ new life:    │                              │  ▲                               │
//	│ Reset, ask   │ begins later, breaks off,    │  │ AllBlocksCleared, or          │ not answered, other life:
//	│ from 0       │ late, silent: Reset          │  │ a later try that begins at 0  │ Reset
//	│              ▼                              │  │                               ▼
//	└────────── Partial ◀── no replay endpoint ───┴──┴── connection broke ◀────── Partial, tried again with back-off
//
// What moves it, and what it rests on:
//
//   - A replay that fills a gap is asked for from the last good batch on, not from the one after it: the answer has to
//     begin with that very batch, byte for byte (a payload has the time of its making in it). So it shows that the engine
//     is the one that is known. After a broken connection the state is Replaying until that is shown; there is a Reset as
//     soon as nobody listens any more, the answer is another, or ReplayTimeout has passed.
//   - A number that goes back is a new life, unless the same batch was seen: then it was sent twice, and is counted.
//   - A first batch with the number 0 finds an empty cache; so does an AllBlocksCleared. From there the feed is whole.
//   - What cannot be read even from the replay, and an event that cannot be read and may be a removal, may have taken
//     blocks away: what was known is void (Reset), what comes after is true but not all (Partial).
//   - While a replay runs, what is published is read and held within bounds; beyond them, and where it goes on for longer
//     than ReplayWhole, the replay is given up. A second
//     try holds nothing up: batches leave as they come until it answers.
//   - A publisher heeds a subscription some time after it is sent, and a batch can be lost before a silence: a publisher
//     of whom nothing is heard is asked for its last batch (CheckFirst, CheckEvery).
//   - An engine that connects out may do so again before its old connection is seen to break: the latest connection that
//     publishes is the engine, what older ones say is of an old life. Where ConnectionsMax are connected and one more comes,
//     the oldest that has never published is closed for it: whoever connects and says nothing keeps no engine out.
//
// # Decoding
//
// Both forms of every event, each told apart by its first byte; see [Decoder] and the wire contract that it cites. What
// the index is told:
//
//   - A batch that would take more than 32 MiB decoded is treated like one that is garbled: it is a hole, asked for again.
//   - Stores pass as they are, also those with fewer hashes than blocks (sliding windows) or without tokens (offload
//     tiers). A store that lacks its parent or holds something that is no hash is left out whole.
//   - Tiers: GPU and none are the device; CPU, CPU_PINNED, CPU_TIER1, CPU_TIER2 the host; STORAGE, FS, OBJ, DISK, EXTERNAL
//     and unknown names the disk, because the slowest tier claims least. What is REMOTE counts as a remote store: the disk.
//   - Groups: full, MLA and sink attention need every block; sliding windows their window; the rest says nothing. A group
//     that does not tell its kind is full attention if it is group 0. A window without its length needs every block.
//   - Namespace: lora_name; where only lora_id is told, a name that no prompt has. cache_salt, or the first string of the
//     first block's extra_keys that is not the adapter. What else extra_keys hold is hashed, block by block.
//
// # Libraries
//
// Primitive values are read with tinylib/msgp, on the bytes of the payload and without allocation (vmihailenco/msgpack
// reads through an io.Reader: 785 us against 206 us for the hashes and tokens of 512 blocks, and an allocation a string).
//
// Sockets are go-zeromq's ZMTP connection (zmq4.Conn) on a TCP connection of our own, not its sockets: those read through
// unbuffered system calls and a queue (157,000 messages/s and 15 allocations each against 1.7 million and 11), do not tell
// of a connection that broke, and make a buffer of any length that a peer claims before a byte of it has come; our
// connection below it follows the frames and breaks off where a message is too long. libzmq (441,000 messages/s through
// cgo) would have to be built on each machine, and reconnects without a word. No message is dropped on this side: what
// the machine has not taken waits in the TCP window and then in the publisher's queue (RCVHWM 0, in the library's words).
package kvevents
