package llamacpp

import (
	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

var (
	capital     = []uint32{506, 5279, 529, 506, 2891, 529, 7001, 236761, 1030, 563, 506, 7488}
	notAStream  = enginetest.Fails(engine.Broken, 0, "content type")
	poolFullIDs = append([]uint32{236743, 236770}, repeated(236771, 60)...)
)

func repeated(id uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = id
	}
	return out
}

// conclusions holds every recorded file of /completion and those of other routes whose status decides.
func conclusions() map[string]enginetest.Conclusion {
	stop, length := engine.FinishStop, engine.FinishLength
	return map[string]enginetest.Conclusion{
		"completion/stream-plain":           {IDs: capital, Cached: []int{1}, Finish: length},
		"completion/stream-tokens":          {IDs: capital, Cached: []int{1}, Finish: length},
		"completion/stream-timings":         {IDs: capital[:3], Cached: []int{1, 1, 1, 1}, Finish: length},
		"completion/stream-nprobs":          {IDs: capital[:3], Cached: []int{1}, Finish: length},
		"completion/n-predict-0-stream":     {IDs: capital[:1], Cached: []int{1}, Finish: length},
		"completion/stop-word-stream":       {IDs: capital[:6], Cached: []int{1, 1}, Finish: stop},
		"completion/eos-stream":             {IDs: []uint32{1}, Cached: []int{1}, Finish: stop},
		"completion/ctx-full-stream":        {IDs: []uint32{621, 236749, 8455, 8455, 8455, 8455, 8455, 8455}, Cached: []int{1}, Finish: length},
		"completion/stream-queued":          {IDs: []uint32{108, 818, 5279, 529}, Cached: []int{2}, Finish: length},
		"completion/stream-ping":            {IDs: []uint32{236743, 236770}, Cached: []int{0}, Finish: length},
		"completion/progress-stream":        {IDs: []uint32{236743, 236770}, Cached: []int{0, 0}, Finish: length},
		"completion/progress-stream-cached": {IDs: []uint32{236743, 236770}, Cached: []int{701, 701}, Finish: length},
		"completion/stream-utf8-split": {
			IDs: []uint32{236781, 401, 402, 236762, 1}, Lost: map[int]int{1: 2, 2: 2}, Cached: []int{2}, Finish: stop,
		},
		"completion/stream-utf8-cut": {IDs: []uint32{236781}, Cached: []int{1}, Finish: length},
		"completion/multi-stream":    enginetest.Fails(engine.Broken, 0, "frame for prompt 1"),

		"faults/kill9-mid-stream":        enginetest.Fails(engine.Broken, 0, "unexpected EOF", capital[:5]...),
		"faults/sigterm-mid-stream":      enginetest.Fails(engine.Broken, 0, "unexpected EOF", capital[:5]...),
		"faults/conv-id-stream-cut":      enginetest.Fails(engine.Broken, 0, "unexpected EOF", capital[:2]...),
		"faults/conv-id-stream-resume":   {IDs: capital[:8], Cached: []int{0}, Finish: length},
		"faults/conv-id-unknown":         enginetest.Fails(engine.Operator, 404, ""),
		"faults/kvu-pool-full-prefill":   enginetest.Fails(engine.Broken, 500, "Context size has been exceeded"),
		"faults/kvu-pool-full-decode":    enginetest.Fails(engine.Broken, 500, "Context size has been exceeded", poolFullIDs...),
		"faults/kvu-pool-full-nonstream": enginetest.Fails(engine.Broken, 500, "Context size has been exceeded"),
		"faults/loading-completion":      enginetest.Fails(engine.Shed, 503, "Loading model"),
		"faults/loading-health":          enginetest.Fails(engine.Shed, 503, "Loading model"),
		"faults/loading-metrics":         enginetest.Fails(engine.Shed, 503, "Loading model"),
		"faults/loading-props":           enginetest.Fails(engine.Shed, 503, "Loading model"),
		"faults/loading-v1-models":       enginetest.Fails(engine.Shed, 503, "Loading model"),
		"info/slots-fail-on-no-slot":     enginetest.Fails(engine.Shed, 503, "no slot available"),

		"errors/ctx":                  enginetest.Fails(engine.Client, 400, "request (1101 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-stream":           enginetest.Fails(engine.Client, 400, "request (1101 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-equal":            enginetest.Fails(engine.Client, 400, "request (1024 tokens) exceeds the available context size (1024 tokens)"),
		"errors/ctx-chat":             enginetest.Fails(engine.Client, 400, "request (1209 tokens) exceeds"),
		"errors/bad-json":             enginetest.Fails(engine.Client, 400, "parse error at line 1, column 15"),
		"errors/wrong-type":           enginetest.Fails(engine.Client, 400, "type must be number, but is string"),
		"errors/no-prompt":            enginetest.Fails(engine.Client, 400, "key 'prompt' not found"),
		"errors/empty-prompt":         enginetest.Fails(engine.Client, 400, `"prompt" must not be empty`),
		"errors/token-negative":       enginetest.Fails(engine.Client, 400, "Prompt contains invalid tokens"),
		"errors/token-out-of-range":   enginetest.Fails(engine.Client, 400, "Prompt contains invalid tokens"),
		"errors/chat-no-messages":     enginetest.Fails(engine.Client, 400, "'messages' is required"),
		"errors/chat-roles":           enginetest.Fails(engine.Client, 400, "Conversation roles must alternate"),
		"errors/auth-bad":             enginetest.Fails(engine.Operator, 401, "Invalid API Key"),
		"errors/auth-none":            enginetest.Fails(engine.Operator, 401, "Invalid API Key"),
		"errors/auth-completion-none": enginetest.Fails(engine.Operator, 401, "Invalid API Key"),
		"errors/404":                  enginetest.Fails(engine.Operator, 404, "File Not Found"),
		"errors/405":                  enginetest.Fails(engine.Operator, 404, "File Not Found"),
		"errors/metrics-disabled":     enginetest.Fails(engine.Operator, 501, "does not support metrics"),
		"errors/props-post":           enginetest.Fails(engine.Operator, 501, "does not support changing"),
		"errors/slot-action":          enginetest.Fails(engine.Operator, 501, "does not support slots action"),
		"errors/slots-disabled":       enginetest.Fails(engine.Operator, 501, "does not support slots endpoint"),

		"completion/text": notAStream, "completion/tokens": notAStream, "completion/tokens-no-bos": notAStream,
		"completion/mixed": notAStream, "completion/multi": notAStream, "completion/n-cmpl": notAStream,
		"completion/nprobs": notAStream, "completion/nprobs-post": notAStream, "completion/no-cache": notAStream,
		"completion/n-predict-0": notAStream, "completion/idslot": notAStream, "completion/idslot-again": notAStream,
		"completion/json-schema": notAStream, "completion/response-fields": notAStream,
		"completion/stop-word": notAStream, "completion/utf8-split": notAStream,
		"errors/unknown-slot": notAStream, "errors/empty-string-prompt": notAStream, "errors/slot-unknown": notAStream,
	}
}
