// Package failover proves, over real sockets and the adapter for vLLM, that whatever way a server ends a stream in, its clients
// get their whole answers. It holds tests alone.
//
//	actors.System ──engine/vllm──▶ saboteur ──▶ testbench/fakeengine     (three of them)
//	                                  └ breaks off the stream of one attempt as real servers were seen to
//
// # What is detected, and where it is shown
//
// Each way in which an engine fails has a scripted test. Those named alone are in this package; "node" is actors.System.
//
//	what                        | through the node                                 | of a part
//	refused                     | TestWhatVLLMDoes/SIGTERM; actors:                | enginetest (each adapter);
//	                            | TestABurstThatAReplicaRefuses                    | actors/stream: TestFailures
//	reset                       | TestHowAServerEndsAStream, reset                 | enginetest
//	EOF mid-stream, mid-frame   | TestHowAServerEndsAStream, serverDies, cutFrame  | engine/vllm: TestSurprisesOfAFailure
//	error frame                 | TestHowAServerEndsAStream, engineDies            | engine/vllm: TestSurprisesOfAFailure
//	missing finish              | TestHowAServerEndsAStream, noFinish, cleanEnd    | actors/stream: TestAnAnswerWithoutAFinishIsNone
//	HTTP 5xx, 429, 503          | TestHowAServerEndsAStream, refusals              | actors/replica: TestShed, TestFailedAttempts
//	HTTP 401, 403, 404, 3xx     | cmd/plimsoll: TestField3, TestField4               | actors/replica: TestOneRequestNeverDegrades
//	Retry-After of an hour      | cmd/plimsoll: TestField6                           | actors/replica: TestAnAbsurdRetryAfterIsCapped
//	an answer without a finish  | cmd/plimsoll: TestField15                          | actors/router: TestAnAnswerWhoseEngineLivesOn
//	first-token deadline        | TestHowAServerEndsAStream, silence after 0       | actors/stream: TestTimeouts
//	inter-token deadline        | actors: TestStreamsLeaveAHungEngine              | actors/stream: TestTimeouts; actors/replica: TestHangRule
//	step counters flat          | TestWhatVLLMDoes/a hung core                     | actors/replica: TestStepCounter, TestHangRule
//	busy is not dead            | actors: TestAPauseIsNoHang                       | actors/replica: TestProgressIsLife, TestBatchOfPrefills
//	health 5xx                  | TestWhatVLLMDoes/a dead core                     | engine/vllm: TestProbeOfAServerThatCannotServe;
//	                            |                                                  | actors/replica: TestFailedProbes
//	restart: start time         | actors/managed: TestEvidence                     | engine/vllm: TestTwoLivesDiffer; actors/replica: TestIncarnation
//	restart: counters back      |                                                  | actors/replica: TestIncarnation, TestRebirth
//	restart: sequence back      | actors/replica: TestFeedOfANewLife               | engine/kvevents: TestRestart
//
// Of a real vLLM (wire contract, A.2.5):
//
//	death: error frame, [DONE], a clean end      | TestHowAServerEndsAStream, engineDies; recorded: engine/vllm TestSurprisesOfAFailure
//	SIGTERM leaves open streams without a byte   | TestWhatVLLMDoes/SIGTERM; recorded: engine/vllm TestAStreamThatHangsAfterSIGTERMIsEndedByItsContext
//	a draining one is healthy and takes new work | TestWhatVLLMDoes/a draining one
//	a hung core answers 200 everywhere           | TestWhatVLLMDoes/a hung core; virtual time: actors TestAHungEngineIsLeft
//	an orphan answers replays after kill -9      | TestWhatVLLMDoes/an orphan
//	200 with nothing but an error frame          | TestAnErrorUnderStatus200
package failover
