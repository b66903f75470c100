package meter

// metric is one declared metric.
type metric struct {
	name, help string
	labels     []string
}

// Label names.
const (
	labelActor   = "actor"
	labelCause   = "cause"
	labelClass   = "class"
	labelEvent   = "event"
	labelKind    = "kind"
	labelLane    = "lane"
	labelModel   = "model"
	labelOutcome = "outcome"
	labelPolicy  = "policy"
	labelReason  = "reason"
	labelReplica = "replica"
	labelRoute   = "route"
	labelState   = "state"
	labelStatus  = "status"
	labelTenant  = "tenant"
	labelTerm    = "term"
	labelTier    = "tier"
	labelVersion = "version"
)

// All metrics of Plimsoll, by room.
var (
	buildInfo   = metric{"plimsoll_build_info", "Always 1; the version is a label.", []string{labelVersion}}
	actorPanics = metric{"plimsoll_actor_panics_total", "Panics that were survived, by the kind of actor or goroutine.", []string{labelActor}}

	logDropped = metric{"plimsoll_log_dropped_lines_total", "Lines of the log that nobody can read, by cause (full: its reader was behind; failed: its reader is gone, or its file cannot be written; unended: they waited at the end).", []string{labelCause}}

	ingressRequests     = metric{"plimsoll_ingress_requests_total", "Requests that ended, by route, model and outcome. Probes (/health, /ready, /metrics) are none.", []string{labelRoute, labelModel, labelOutcome}}
	ingressResponses    = metric{"plimsoll_ingress_responses_total", "Requests that ended, by route and HTTP status; 499: the client left before there was one.", []string{labelRoute, labelStatus}}
	ingressTenants      = metric{"plimsoll_ingress_tenant_requests_total", "Chats and completions that ended, by tenant (an API key's name), class (service_tier) and outcome.", []string{labelTenant, labelClass, labelOutcome}}
	ingressTenantTokens = metric{"plimsoll_ingress_tenant_tokens_total", "Tokens of requests that gave one, by tenant and kind (prompt, completion).", []string{labelTenant, labelKind}}
	ingressFaults       = metric{"plimsoll_ingress_faults_total", "Requests that ended with an error, by route and kind of error.", []string{labelRoute, labelKind}}
	ingressOpen         = metric{"plimsoll_ingress_open_requests", "Requests for work (chats, completions, tokenizing) that are being answered.", nil}
	ingressSeconds      = metric{"plimsoll_ingress_request_seconds", "Time from a request's arrival to its end.", []string{labelRoute, labelModel}}
	ingressFirstToken   = metric{"plimsoll_ingress_first_token_seconds", "Time from a request's arrival to its first token at the edge, by class (service_tier).", []string{labelModel, labelClass}}
	ingressTokenSeconds = metric{"plimsoll_ingress_token_seconds", "Time per output token after the first, one observation a request.", []string{labelModel}}
	ingressPrompt       = metric{"plimsoll_ingress_prompt_tokens_total", "Prompt tokens of requests that gave a token.", []string{labelModel}}
	ingressCached       = metric{"plimsoll_ingress_cached_tokens_total", "Prompt tokens that engines found in their cache.", []string{labelModel}}
	ingressCompletion   = metric{"plimsoll_ingress_completion_tokens_total", "Tokens generated for clients.", []string{labelModel}}
	ingressStalls       = metric{"plimsoll_ingress_client_stalls_total", "Clients that took nothing for too long and were cut off.", nil}
	ingressBodyBytes    = metric{"plimsoll_ingress_body_bytes", "Bytes of request bodies held in memory.", nil}

	routerQueuedRequests = metric{"plimsoll_router_queued_requests", "Requests that wait for a replica with room.", []string{labelModel}}
	routerQueuedTokens   = metric{"plimsoll_router_queued_tokens", "Prompt tokens of the requests that wait.", []string{labelModel}}
	routerQueueSeconds   = metric{"plimsoll_router_queue_seconds", "Time a dispatched request had waited in the queue.", []string{labelModel}}
	routerDecision       = metric{"plimsoll_router_decision_seconds", "Time one ranking of the replicas took.", []string{labelModel}}
	routerRefusals       = metric{"plimsoll_router_refusals_total", "Requests the router refused, by kind of error and cause (slo_first_token, slo_pace: at arrival, by what was predicted; slo_shed: while it waited; queue_full; queue_timeout; unserved; shed: by engines; broken; too_large; malformed; defect: of ours).", []string{labelModel, labelKind, labelCause}}
	routerReranks        = metric{"plimsoll_router_reranks_total", "Reservations a replica refused, so that the request was ranked again.", []string{labelModel}}
	routerEjections      = metric{"plimsoll_router_ejections_total", "Times that a replica was left alone for a while because its steps took much longer than they did.", []string{labelReplica, labelModel}}

	recordRequests       = metric{"plimsoll_record_requests_total", "Requests for the recorded trace, by outcome (written; dropped: it was behind, they ran for too long, or their prompt never became known).", []string{labelOutcome}}
	decisionSecondsError = metric{"plimsoll_router_prediction_error_seconds", "What came less what was predicted when a request was dispatched, by replica and term (start: the wait for its prefill; prefill; first_token: both; decode_step).", []string{labelReplica, labelTerm}}
	decisionTokensError  = metric{"plimsoll_router_prediction_error_tokens", "What came less what was predicted when a request was dispatched, by replica and term (overlap: prompt tokens found in the cache; output: tokens of the answer).", []string{labelReplica, labelTerm}}
	decisionDropped      = metric{"plimsoll_router_notes_dropped_total", "What a router noted of its decisions and was not taken in, because there was too much of it.", []string{labelModel}}
	shadowDecisions      = metric{"plimsoll_router_shadow_decisions_total", "What a --shadow-policy would have done, beside the policy that acts: agree, differ (another replica), dispatch, hold or refuse (it alone), dropped (it was not asked).", []string{labelModel, labelPolicy, labelOutcome}}

	streamBreaks  = metric{"plimsoll_stream_breaks_total", "Answers whose engine failed after their first token, by the class of their continuation and what became of them (resumed, restarted, declined, given_up, left).", []string{labelModel, labelClass, labelOutcome}}
	streamCarried = metric{"plimsoll_stream_carried_tokens_total", "Tokens of broken answers that another replica went on from.", []string{labelModel}}
	streamGap     = metric{"plimsoll_stream_gap_seconds", "Time between the last token before an engine's failure and the first one after it.", []string{labelModel}}
	streamHedges  = metric{"plimsoll_stream_hedges_total", "Second attempts beside one that was slow with its first token, by event (begun, and then won, lost or failed; refused or withdrawn: none was begun).", []string{labelModel, labelEvent}}

	replicaState         = metric{"plimsoll_replica_state", "1 for the state the replica is in, 0 for the others.", []string{labelReplica, labelModel, labelState}}
	replicaBooked        = metric{"plimsoll_replica_booked_blocks", "KV blocks promised to requests, lingering ones included.", []string{labelReplica, labelModel}}
	replicaLingering     = metric{"plimsoll_replica_lingering_requests", "Requests that ended here whose blocks the engine has not let go of.", []string{labelReplica, labelModel}}
	replicaCapacity      = metric{"plimsoll_replica_capacity_blocks", "KV blocks the engine's device cache holds for us.", []string{labelReplica, labelModel}}
	replicaSeats         = metric{"plimsoll_replica_capacity_seats", "Sequences the engine decodes at once.", []string{labelReplica, labelModel}}
	replicaSeatsUsed     = metric{"plimsoll_replica_booked_seats", "Sequences promised.", []string{labelReplica, labelModel}}
	replicaOverdraft     = metric{"plimsoll_replica_overdraft_blocks", "Blocks booked past what predictions and capacity allowed.", []string{labelReplica, labelModel}}
	replicaForeign       = metric{"plimsoll_replica_foreign_blocks", "Blocks the engine uses that are not ours.", []string{labelReplica, labelModel}}
	replicaPrefill       = metric{"plimsoll_replica_prefill_tokens", "Prompt tokens of requests without a first token.", []string{labelReplica, labelModel}}
	replicaFirstToken    = metric{"plimsoll_replica_first_token_seconds", "Time from an attempt's start on the replica to its first token.", []string{labelReplica, labelModel}}
	replicaTokenGap      = metric{"plimsoll_replica_token_seconds", "Time between two tokens of an answer on the replica. Of gaps of several answers that overlap one is counted; each is rounded up by a fifth at most.", []string{labelReplica, labelModel}}
	replicaLateEnds      = metric{"plimsoll_replica_late_ends_total", "Ends of tickets that had ended before or were never known: counted, without effect.", []string{labelReplica, labelModel}}
	replicaRestarts      = metric{"plimsoll_replica_actor_restarts_total", "New epochs: the actor was restarted, its engine lived on.", []string{labelReplica, labelModel}}
	replicaIncarnations  = metric{"plimsoll_replica_incarnations_total", "New incarnations: the engine process was another than before.", []string{labelReplica, labelModel}}
	replicaForeignAlarms = metric{"plimsoll_replica_foreign_alarms_total", "Runs of missed samples that made what is known of foreign use expire.", []string{labelReplica, labelModel}}
	replicaEnds          = metric{"plimsoll_replica_ticket_ends_total", "Tickets that ended, by reason.", []string{labelReplica, labelModel, labelReason}}
	replicaRefusals      = metric{"plimsoll_replica_refusals_total", "Claims the ledger refused, by reason.", []string{labelReplica, labelModel, labelReason}}
	replicaSuspicions    = metric{"plimsoll_replica_suspicions_total", "Times that the replica got nothing new because its streams were silent and its counter stood still.", []string{labelReplica, labelModel}}
	replicaStrikes       = metric{"plimsoll_replica_strikes_total", "Times that the replica was taken out, by kind: its canary was late too (hang), or one attempt after another broke (breaks).", []string{labelReplica, labelModel, labelKind}}
	replicaCanaries      = metric{"plimsoll_replica_canaries_total", "Requests for one token that asked a silent replica whether it lives.", []string{labelReplica, labelModel}}
	replicaRelaunches    = metric{"plimsoll_replica_engine_restarts_total", "Processes of ours that were given up because they hung or answered nobody, and started anew.", []string{labelReplica, labelModel}}
	replicaFailures      = metric{"plimsoll_replica_failures_total", "Attempts that the engine failed, by the kind of failure.", []string{labelReplica, labelModel, labelKind}}

	tokenizerSeconds  = metric{"plimsoll_tokenizer_request_seconds", "Time to render and encode one request, waiting not counted.", []string{labelModel}}
	tokenizerWait     = metric{"plimsoll_tokenizer_wait_seconds", "Time one request waited for tokenizer workers, all its steps together, by lane (short: at most 64 KiB; long).", []string{labelModel, labelLane}}
	tokenizerTokens   = metric{"plimsoll_tokenizer_tokens_total", "Tokens encoded.", []string{labelModel}}
	tokenizerQueued   = metric{"plimsoll_tokenizer_queued_requests", "Requests that wait for a tokenizer worker or are with one.", []string{labelModel}}
	tokenizerBytes    = metric{"plimsoll_tokenizer_queued_bytes", "Bytes of the requests that wait for their first tokenizer worker.", []string{labelModel}}
	tokenizerPassed   = metric{"plimsoll_tokenizer_passed_on_total", "Chats that went to the engine as they came: not rendered here, by reason (media, template, limit, no_template, setting).", []string{labelModel, labelReason}}
	tokenizerRefusals = metric{"plimsoll_tokenizer_refusals_total", "Requests that could not be turned into tokens, by kind of error.", []string{labelModel, labelKind}}

	feedState     = metric{"plimsoll_kvfeed_index_state", "1 for the state of the replica's part of the prefix index, 0 for the others.", []string{labelReplica, labelState}}
	feedEvents    = metric{"plimsoll_kvfeed_events_total", "KV cache events applied, by kind.", []string{labelReplica, labelEvent}}
	feedSkipped   = metric{"plimsoll_kvfeed_skipped_total", "Parts of the feed that were left out, by reason.", []string{labelReplica, labelReason}}
	feedGaps      = metric{"plimsoll_kvfeed_gaps_total", "Holes in the sequence of event batches.", []string{labelReplica}}
	feedReplays   = metric{"plimsoll_kvfeed_replays_total", "Times that missing batches were asked for again.", []string{labelReplica}}
	feedVoids     = metric{"plimsoll_kvfeed_audit_voids_total", "Times that the replica's part of the index was built anew because its engine kept finding less cached than predicted, or it held more than the engine can.", []string{labelReplica}}
	feedLag       = metric{"plimsoll_kvfeed_lag_seconds", "Age of the last batch of events when it came, by the engine's clock and ours.", []string{labelReplica}}
	feedLeftOut   = metric{"plimsoll_kvfeed_index_skipped_total", "Stores, blocks and removals that the prefix index could do nothing with, by reason.", []string{labelReplica, labelReason}}
	feedBlocks    = metric{"plimsoll_kvfeed_indexed_blocks", "Blocks of the replica the prefix index holds, by tier.", []string{labelReplica, labelTier}}
	feedOrphans   = metric{"plimsoll_kvfeed_orphan_blocks", "Blocks whose parent is not known.", []string{labelReplica}}
	feedHoles     = metric{"plimsoll_kvfeed_hole_blocks", "Blocks the index holds whose parent it does not hold.", []string{labelReplica}}
	feedPredicted = metric{"plimsoll_kvfeed_predicted_cached_tokens_total", "Cached prompt tokens the index predicted, where the engine told the truth later.", []string{labelReplica}}
	feedReported  = metric{"plimsoll_kvfeed_reported_cached_tokens_total", "Cached prompt tokens the engine reported for the same requests.", []string{labelReplica}}
	feedOver      = metric{"plimsoll_kvfeed_overprediction_tokens", "Cached prompt tokens predicted less those that the engine reported, a request.", []string{labelReplica}}
)
