// Package tokenizer puts a model's text side together: its tokenizer, its chat template and the IDs that end its answers,
// loaded from the model's folder.
//
//	folder ──Load──▶ Model ── Render (chat) ──▶ Encode (hf) ──▶ token IDs
//	                       └─ Decode (hf) ◀── detok ◀── token IDs of the answer
//
// The sub-packages do the work: hf (tokenizer.json), jinja and chat (templates), detok (streams of IDs to text), simmodel
// (the embedded model). A Model never changes after Load and is safe for concurrent use; who loads it closes it.
package tokenizer
