package llamacpp

import (
	"context"
	"errors"
	"slices"
	"sync"

	"plimsoll/engine"
)

const (
	pathProps  = "props"
	pathModels = "v1/models"
)

// models is what we read of GET /v1/models.
type models struct {
	Data []struct {
		ID      string   `json:"id"`
		Aliases []string `json:"aliases"`
		Meta    struct {
			Vocabulary *int `json:"n_vocab"`
			Trained    *int `json:"n_ctx_train"` // the model's own length: that of the server is its operator's choice
		} `json:"meta"`
	} `json:"data"`
}

// described is what a life of the server has said of its model, for which it is asked once.
type described struct {
	mu          sync.Mutex
	incarnation string // guarded by mu
	models      models // guarded by mu
}

// describe fills in what tells the model from others. A server that does not say it is served all the same.
func (e *Engine) describe(ctx context.Context, st *engine.Status) error {
	d := &e.described
	d.mu.Lock()
	known, m := st.Incarnation != "" && d.incarnation == st.Incarnation, d.models
	d.mu.Unlock()
	if !known {
		var err error
		if m, err = e.askModels(ctx); err != nil {
			return err
		}
		if len(m.Data) > 0 {
			d.mu.Lock()
			d.incarnation, d.models = st.Incarnation, m
			d.mu.Unlock()
		}
	}
	if st.Model != "" {
		st.Names = []string{st.Model}
	}
	if len(m.Data) == 0 {
		return nil
	}
	of := m.Data[0]
	for _, name := range append([]string{of.ID}, of.Aliases...) {
		if name != "" && !slices.Contains(st.Names, name) {
			st.Names = append(st.Names, name)
		}
	}
	st.VocabTokens, st.LengthTokens = clone(of.Meta.Vocabulary), clone(of.Meta.Trained)
	return nil
}

// askModels returns nothing where the server has another answer.
func (e *Engine) askModels(ctx context.Context) (models, error) {
	header, body, err := e.client.Get(ctx, pathModels)
	var m models
	if err == nil {
		err = e.client.ReadJSON(pathModels, header, body, &m)
	}
	var f *engine.Failure
	switch {
	case err == nil:
		return m, nil
	case errors.As(err, &f) && (f.FromEngine || f.Kind == engine.Broken):
		return models{}, nil // older servers have another form or none
	}
	return models{}, err
}

// clone keeps what a probe is given its own.
func clone(n *int) *int {
	if n == nil {
		return nil
	}
	c := *n
	return &c
}
