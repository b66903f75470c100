package fleet

// Likeness is what tells requests that have nothing in common from those that are alike: what an engine does to some that are alike it
// may do because of what they are.
type Likeness struct {
	Tenant, LoRA string
	// Head stands for the first block of the prompt: prompts with another one share none. Whole stands for all of the prompt.
	Head, Whole uint64
	Several     Several
}

// Several says of what more than one is in use by the requests of a model.
type Several struct{ Tenants, Adapters bool }
