package chat

import (
	"slices"

	"plimsoll/tokenizer/jinja"
)

// reserved are the names that a request's chat_template_kwargs must not hold: the template and how it is used, and what the
// request says elsewhere.
var reserved = [...]string{"chat_template", "tokenize", "messages", "conversation", "tools"}

// variables returns what the template sees besides messages and tools: defaults | chat_template_kwargs | what the request says itself.
func (r *Renderer) variables(req Request) (map[string]jinja.Value, error) {
	vars := make(map[string]jinja.Value, len(r.special)+len(r.defaults)+8)
	vars["documents"] = nil
	for name, text := range r.special {
		vars[name] = text
	}
	for name, v := range r.defaults {
		vars[name] = v
	}
	kwargs, err := requestKwargs(req.Kwargs)
	if err != nil {
		return nil, err
	}
	_, thinkingSet := kwargs.Get("enable_thinking")
	for name, v := range kwargs.All() {
		// over a server's defaults, null and "auto" mean: as the default says
		if len(r.defaults) == 0 || v != nil && v != "auto" {
			vars[name] = v
		}
	}
	documents, err := requestDocuments(req.Documents)
	if err != nil {
		return nil, err
	}
	if documents != nil {
		vars["documents"] = documents
	}
	if effort := req.ReasoningEffort; effort != nil {
		if *effort != "auto" {
			vars["reasoning_effort"] = *effort
		}
		if !thinkingSet {
			vars["enable_thinking"] = *effort != "none"
		}
	}
	// arguments of the rendering, not variables of the template
	delete(vars, "continue_final_message")
	vars["add_generation_prompt"] = orElse(req.AddGenerationPrompt, true)
	return vars, nil
}

func requestKwargs(raw []byte) (*jinja.Dict, error) {
	v, present, err := decode("chat_template_kwargs", raw)
	if err != nil || !present {
		return jinja.NewDict(0), err
	}
	kwargs, ok := v.(*jinja.Dict)
	if !ok {
		return nil, badInput("chat_template_kwargs", "must be an object")
	}
	for name := range kwargs.All() {
		if slices.Contains(reserved[:], name) {
			return nil, badInput("chat_template_kwargs."+name, "can't be set by a request")
		}
	}
	return kwargs, nil
}

func requestDocuments(raw []byte) (jinja.Value, error) {
	v, present, err := decode("documents", raw)
	if err != nil || !present {
		return nil, err
	}
	list, ok := v.(*jinja.List)
	if !ok {
		return nil, badInput("documents", "must be an array of objects")
	}
	for _, item := range list.Items {
		if _, ok := item.(*jinja.Dict); !ok {
			return nil, badInput("documents", "must be an array of objects")
		}
	}
	return list, nil
}
