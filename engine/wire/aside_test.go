package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsides(t *testing.T) {
	type usage struct {
		Prompt  Aside[int] `json:"prompt"`
		Details Aside[struct {
			Cached Aside[int] `json:"cached"`
		}] `json:"details"`
	}
	for text, want := range map[string]struct{ prompt, cached *int }{
		`{"usage":{"prompt":3,"details":{"cached":2}}}`:           {new(3), new(2)},
		`{"usage":{"prompt":"3","details":{"cached":2}}}`:         {nil, new(2)},
		`{"usage":{"prompt":3.5,"details":{"cached":"a"}}}`:       {nil, nil},
		`{"usage":{"prompt":3,"details":[1]}}`:                    {new(3), nil},
		`{"usage":{"prompt":3,"details":null}}`:                   {new(3), nil},
		`{"usage":{"prompt":1e400,"details":{"cached":1e30}}}`:    {nil, nil},
		`{"usage":{"prompt":3,"prompt":true,"details":7}}`:        {nil, nil},
		`{"usage":{"prompt":{},"details":{"cached":[]},"x":"y"}}`: {nil, nil},
		`{"usage":"many"}`: {nil, nil},
		`{"usage":7}`:      {nil, nil},
		`{"usage":null}`:   {nil, nil},
		`{}`:               {nil, nil},
	} {
		var frame struct {
			Usage Aside[usage] `json:"usage"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &frame), text)
		var u usage
		if frame.Usage.Value != nil {
			u = *frame.Usage.Value
		}
		var cached *int
		if u.Details.Value != nil {
			cached = u.Details.Value.Cached.Value
		}
		require.Equal(t, want.prompt, u.Prompt.Value, text)
		require.Equal(t, want.cached, cached, text)
	}
	require.Error(t, json.Unmarshal([]byte(`{"usage":{]}`), &struct{ Usage Aside[usage] }{}), "what is no JSON is none here either")
}
