// Package chat turns an OpenAI chat request into the prompt that an engine would make of it.
//
// A chat template ([plimsoll/tokenizer/jinja]) is only half of that: before the template an engine rewrites messages, tools and
// template variables, and any difference there is a different prompt, other token ids and other prefix hashes. This
// package does what vLLM does, in vLLM's order:
//
//	request ──> message.go   reasoning_content -> reasoning, content to a string or to parts, tool calls' arguments to objects
//	        ──> developer.go  the role developer to system, for templates that don't know it
//	        ──> tool.go      tools in the order and with the defaults of vLLM's own types
//	        ──> kwargs.go    defaults | chat_template_kwargs | what the request says itself
//	        ──> render.go    the template (the one for tools, if there is one), special tokens, continue_final_message
//	        ──> prompt       for encoding without special tokens added
//
// The tokenizer's workers call [Renderer.Render]; command line tools call it too. A [Renderer] never changes after [New] and may be
// used by any number of goroutines. [Load] reads the template and the special tokens from a model's folder at start.
//
// Invariants: nothing is guessed. What a template can't show (images, audio) and what a request must not choose (its own template)
// is refused with a [BadInput] that names the parameter; what the template refuses is a BadInput with the template's own
// words. A limit of the template engine is one too, and matches [plimsoll/tokenizer/jinja.ErrLimit] with errors.Is.
// [CannotRender] tells what an engine that renders by itself may still answer (media, a template that breaks, limits, no
// template) from what the client must change; [Estimate] is about how long such a prompt is.
//
// Models that an engine renders without a template (gpt-oss, Mistral's own tokenizer, ...) are not for this package.
package chat
