// Package tokenize turns what clients send into token IDs, so that large inputs do not hold up small ones: one pool of workers
// a model, beside its router and under the same supervisor, which outlives the router's restarts.
//
//	Call ──Submit, Withdraw──▶ Handle ──▶ pool ──run, one step──▶ worker (child, of one lane)
//	                                       │  ▲                     │
//	                                       │  └────────ran──────────┘  done, or the next step of it
//	                                       └──Encoded──▶ Call, Submit with prompts──▶ router
//	edge ─────Tokenize───────▶ Handle ──▶ pool ──▶ ...──▶ Tokenized
//
// A call knows the pool by its [Handle], which no restart changes. It submits here until its prompts are known, and to its router
// from then on; what it withdraws it withdraws here, and what the pool does not know goes on to the router, in this order.
//
// # Lanes
//
// An encode of the tokenizer library cannot be interrupted. So a job is done in steps, and what its next step takes decides its
// lane. Each lane has workers and slots of its own, so that nobody waits for a step of another lane:
//
//	lane     what                                                                 at once on a node
//	short    an input of at most Config.SliceBytes, rendered and encoded in one   N
//	render   a longer chat's template                                             1
//	slices   at most Config.SliceBytes of a longer input                          N - 1, at least 1
//	whole    a longer piece of a text, which has no place to be cut at            1
//
// N is the number that the [Gate] is made with; its slots are shared by the models of a node. Package tokenizer/hf says where a text can
// be cut without changing its IDs.
//
// # Order
//
// In a lane classes go before each other and tenants take turns by start-time fair queueing on bytes (package scoring/queue), step
// by step, so that a tenant with many long inputs does not delay another's. Of one tenant the inputs go by arrival and a microsecond
// for each byte. What waits is bounded in bytes, for short inputs and long ones apart; each tenant that waits has an equal part of the bound
// that others cannot take.
//
// # What ends a job
//
//   - Its result.
//   - Its client's leaving: what waits is dropped at once, what runs is not gone on with after its step.
//   - Its size: as soon as it is certain that a prompt is longer than any replica of the model takes, from the number of
//     messages, from the bytes of the text (a lower bound, before anything is encoded), or from what is encoded so far.
//   - A panic, which costs this job alone.
//
// # Who owns what
//
//	jobs, lanes, what waits     the pool, inside [machine]; pure
//	texts and IDs of a job      the worker that runs it, else the pool
//	slots of the node           [Gate], shared by all pools
//
// If the pool fails its jobs are lost on purpose: the new instance asks the live calls whose prompts are not known to submit again.
package tokenize
