package ingress

import (
	"slices"

	"plimsoll/actors/fault"
)

// refusal is a parameter that would change the answer and is not served. Values that ask for nothing are let pass.
type refusal struct {
	param    string
	harmless []string // JSON texts
	instead  string   // what the client can do
}

const (
	notServed = "is not served"
	noGrammar = "is not served: answers can't be bound to a grammar"
	noMedia   = "is not served: models read and write text"
)

// refusals lists what is refused on both /v1/chat/completions and /v1/completions. doc.go repeats it for readers.
func refusals() []refusal {
	return []refusal{
		{"functions", []string{"[]"}, "is not served: use tools"},
		{"function_call", nil, "is not served: use tool_choice"},
		{"parallel_tool_calls", []string{"true"}, "can only be true: how many calls a model writes is not bounded"},
		{"response_format", []string{`{"type":"text"}`}, "can only be {\"type\":\"text\"}: answers can't be bound to a grammar"},
		{"structured_outputs", []string{"{}"}, noGrammar},
		{"guided_json", nil, noGrammar},
		{"guided_regex", nil, noGrammar},
		{"guided_choice", nil, noGrammar},
		{"guided_grammar", nil, noGrammar},
		{"guided_decoding_backend", nil, noGrammar},
		{"guided_whitespace_pattern", nil, noGrammar},
		{"structural_tag", nil, noGrammar},
		{"grammar", []string{`""`}, noGrammar},
		{"json_schema", []string{"{}"}, noGrammar},
		{"regex", nil, noGrammar},
		{"ebnf", nil, noGrammar},
		{"modalities", []string{`["text"]`}, noMedia},
		{"audio", nil, noMedia},
		{"mm_processor_kwargs", []string{"{}"}, noMedia},
		{"media_io_kwargs", []string{"{}"}, noMedia},
		{"prediction", nil, notServed},
		{"web_search_options", nil, notServed},
		{"store", []string{"false"}, "can only be false: answers are not kept"},
		{"verbosity", []string{`"medium"`}, notServed},
		{"include_reasoning", []string{"true"}, "can only be true: the answer's text is left as it is"},
		{"echo", []string{"false"}, notServed},
		{"suffix", []string{`""`}, notServed},
		{"prompt_embeds", nil, notServed},
		{"prompt_logprobs", nil, notServed},
		{"truncate_prompt_tokens", nil, "is not served: a prompt is never cut"},
		{"use_beam_search", []string{"false"}, notServed},
		{"length_penalty", []string{"1", "1.0"}, notServed},
		{"allowed_token_ids", nil, notServed},
		{"bad_words", []string{"[]"}, notServed},
		{"logits_processors", []string{"[]"}, notServed},
		{"logprob_token_ids", []string{"[]"}, notServed},
		{"thinking_token_budget", nil, notServed},
		{"chat_template", nil, "is not served: the model's own template is used"},
		{"return_token_ids", []string{"false"}, notServed},
		{"return_tokens_as_token_ids", []string{"false"}, notServed},
		{"kv_transfer_params", []string{"{}"}, notServed},
		{"ec_transfer_params", []string{"{}"}, notServed},
		{"vllm_xargs", []string{"{}"}, notServed},
	}
}

// refusalsInChats lists what only /v1/completions serves, refusalsInCompletions what only /v1/chat/completions does: passed
// over, it would change the answer in silence.
func refusalsInChats() []refusal {
	const elsewhere = "is served on /v1/completions"
	return []refusal{
		{"prompt", nil, elsewhere + ": use messages"},
		{"best_of", []string{"1"}, elsewhere},
	}
}

func refusalsInCompletions() []refusal {
	const elsewhere = "is served on /v1/chat/completions"
	return []refusal{
		{"messages", nil, elsewhere + ": use prompt"},
		{"tools", []string{"[]"}, elsewhere},
		{"tool_choice", []string{`"none"`, `"auto"`}, elsewhere},
		{"max_completion_tokens", nil, elsewhere + ": use max_tokens"},
		{"top_logprobs", []string{"0"}, elsewhere + ": use logprobs"},
		{"reasoning_effort", nil, elsewhere},
		{"chat_template_kwargs", []string{"{}"}, elsewhere},
		{"documents", []string{"[]"}, elsewhere},
		{"continue_final_message", []string{"false"}, elsewhere},
	}
}

// ignored lists what is taken and changes nothing in the answer.
func ignored() []string {
	return []string{
		"user", "metadata", "safety_identifier", "prompt_cache_retention", "priority", "request_id",
		"stream_interval", "spaces_between_special_tokens", "stream_options.include_obfuscation",
	}
}

// servedByEngines lists those of refusals that an engine serves which renders a chat and reads the answer by itself: they
// pass where every chat goes to the engine as it came.
func servedByEngines() []string {
	return []string{"response_format", "structured_outputs", "parallel_tool_calls", "include_reasoning", "thinking_token_budget"}
}

// bound says whether an engine that serves all these binds the answer to a grammar: it compiles one first.
func (p *params) bound() bool {
	for _, r := range refusals() {
		grammar := r.param == "response_format" || r.param == "structured_outputs"
		if raw := p.raw(r.param); grammar && raw != nil && !is(raw, r.harmless...) {
			return true
		}
	}
	forced := p.raw("tool_choice")
	return forced != nil && !is(forced, `"none"`, `"auto"`)
}

// refusalsOfChats are the refusals of a chat.
func refusalsOfChats(m Model) []refusal {
	list := refusals()
	if m.EngineRenders {
		served := servedByEngines()
		list = slices.DeleteFunc(list, func(r refusal) bool { return slices.Contains(served, r.param) })
	}
	return append(list, refusalsInChats()...)
}

// refuse complains of what is asked for and not served. Where there are no tools it is no matter how many calls may go side by
// side.
func (p *params) refuse(list []refusal) {
	toolless := is(p.raw("tools"), "", "[]")
	for _, r := range list {
		if toolless && r.param == "parallel_tool_calls" && is(p.raw(r.param), "false") {
			continue
		}
		if raw := p.raw(r.param); raw != nil && !is(raw, r.harmless...) && p.fault == nil {
			p.fault = fault.Invalid(r.param, "%s %s", r.param, r.instead)
		}
	}
}
