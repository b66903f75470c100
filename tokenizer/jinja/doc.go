// Package jinja renders Hugging Face chat templates byte for byte as Python's jinja2 does in the sandbox that transformers sets up.
//
// The tokens that an engine sees follow from the rendered text, so a renderer that differs in one blank sends requests with other
// prefix hashes and other prompts than the engine's own. No general template library is exact here: order of keys, floats,
// JSON text, None and undefined, whitespace control and scoping are all Python's. This package follows the lexer, the parser,
// the scoping and the value semantics of jinja2 3.1 (BSD-3-Clause, see NOTICE) for what chat templates can use: no loader, so
// no include, import, extends and block; no autoescape.
//
//	source ──lexer.go──> tokens ──parser.go──> tree ──check.go──> [Template] ──state.go──> text
//	                             parse_*.go          content.go            statement.go, loop.go, macro.go
//	                                                                       expression.go, operator.go, subscript.go
//	                                                                       filter*.go, tests.go, method.go, global.go
//	                                                                       └─ limits.go: each step and byte is reckoned
//
// tokenizer/chat calls it: [Compile] once per model at start, [Template.Render] per request with values from [FromJSON].
//
// Ownership: a Template never changes and is safe for any number of goroutines; all that a render changes lives in its own state.
// Values are never changed by a render (the sandbox forbids it), so they may be shared.
//
// Invariants:
//   - A template, or data from a client, can neither hang the process nor exhaust its memory or stack: source, nesting, steps, bytes
//     and the depth of calls and values are bounded by [Limits]. Depth is bounded before it is walked, because a Go stack that
//     overflows takes the process with it.
//   - What jinja2 refuses is refused: an error is never a text that the engine would not have made. [Error.Kind] names the
//     Python exception.
//   - The clock is an argument.
//
// Known differences, all outside of what templates do: a Markup inside a container prints without Markup(...); jinja2 folds constants
// such as (2.0)[1:] to undefined; values whose Python text holds an address are refused; lone surrogates become U+FFFD; the
// filters random, pprint, striptags, urlize, xmlattr and wordwrap and some letters of strftime are absent.
package jinja
