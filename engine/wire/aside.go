package wire

import "encoding/json"

// Aside is a part of a frame that the answer does not hang on, such as its usage. One of another shape (a text or a fraction for a
// whole number, a list for an object) counts as not said, and the frame around it is read all the same.
type Aside[T any] struct {
	Value *T // nil: null, absent or of another shape
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (a *Aside[T]) UnmarshalJSON(text []byte) error {
	a.Value = nil
	if string(text) == "null" {
		return nil
	}
	var v T
	if json.Unmarshal(text, &v) == nil {
		a.Value = &v
	}
	return nil
}
