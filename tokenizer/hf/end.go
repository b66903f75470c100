package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// EndTokens collects the ids that end an answer, sorted, from the files of a model's folder, as engines do: eos_token_id of
// generation_config.json or, where that has none, of config.json (at its top or in text_config), and eos_token of
// tokenizer_config.json. dir stands for the folder in errors. Files that are absent count for nothing; the result may be empty.
// A named token that the vocabulary lacks is an error.
func (t *Tokenizer) EndTokens(fsys fs.FS, dir string) ([]uint32, error) {
	type eosHolder struct {
		EOS idList `json:"eos_token_id"`
	}
	var generation eosHolder
	var config struct {
		eosHolder
		Text eosHolder `json:"text_config"`
	}
	var tokenizer struct {
		EOS tokenName `json:"eos_token"`
	}
	for _, file := range []struct {
		name string
		into any
	}{{"generation_config.json", &generation}, {"config.json", &config}, {"tokenizer_config.json", &tokenizer}} {
		if err := readJSON(fsys, dir, file.name, file.into); err != nil {
			return nil, err
		}
	}
	ends := slices.Clone(generation.EOS)
	if len(ends) == 0 {
		ends = append(config.EOS, config.Text.EOS...)
	}
	if tokenizer.EOS != "" {
		id, ok := t.TokenID(string(tokenizer.EOS))
		if !ok {
			return nil, &FileError{
				File: filepath.Join(dir, "tokenizer_config.json"), Key: "eos_token",
				Err: fmt.Errorf("the token %q is not in the vocabulary of %s", tokenizer.EOS, t.name),
			}
		}
		ends = append(ends, id)
	}
	slices.Sort(ends)
	return slices.Compact(ends), nil
}

// idList is one id, a list of ids, or null.
type idList []uint32

func (l *idList) UnmarshalJSON(raw []byte) error {
	var one *uint32
	if json.Unmarshal(raw, &one) == nil {
		*l = nil
		if one != nil {
			*l = idList{*one}
		}
		return nil
	}
	if json.Unmarshal(raw, (*[]uint32)(l)) != nil {
		return fmt.Errorf("eos_token_id is %s, want a token id or a list of them", raw)
	}
	return nil
}

// tokenName is a token's spelling: a string, the content of an object, or empty for null.
type tokenName string

func (n *tokenName) UnmarshalJSON(raw []byte) error {
	var entry struct {
		Content string `json:"content"`
	}
	if json.Unmarshal(raw, &entry) == nil {
		*n = tokenName(entry.Content)
		return nil
	}
	if json.Unmarshal(raw, (*string)(n)) != nil {
		return fmt.Errorf("eos_token is %s, want a string or an object with content", raw)
	}
	return nil
}

// readJSON decodes a file of a folder; one that is absent changes nothing.
func readJSON(fsys fs.FS, dir, name string, into any) error {
	raw, err := fs.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	path := filepath.Join(dir, name)
	if err != nil {
		return &FileError{File: path, Err: pathless(err)}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return jsonFault(path, raw, err)
	}
	return nil
}
