package hf_test

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"plimsoll/tokenizer/hf"
)

const smallest = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,"pre_tokenizer":null,
"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"b"}}`

func TestFaultsNameTheFileAndThePlace(t *testing.T) {
	for _, test := range []struct{ name, json, want string }{
		{"empty", "", `some.json:1:1: unexpected end of JSON input`},
		{"syntax", "{\n  \"model\": {,}\n}", `some.json:2:13: invalid character ',' looking for beginning of object key string`},
		{"cut", `{"model": {"vocab": {"a": 1`, `some.json:1:27: unexpected end of JSON input`},
		{"no model", `{}`, `some.json: key "model": is missing: this is no tokenizer.json`},
		{"no vocabulary", `{"model": {"type": "BPE"}}`, `some.json: key "model.vocab": is missing`},
		{"empty vocabulary", `{"model": {"vocab": {}}}`, `some.json: key "model.vocab": is empty`},
		{"wrong kind", "{\"added_tokens\":\n [{\"id\": \"x\"}]}", `some.json:2:12: key "added_tokens.id": is a JSON string, want a whole number from 0 to 4294967295`},
		{"huge id", `{"model": {"vocab": {"a": 4000000000}}}`, `some.json: key "model.vocab": token "a" has the id 4000000000, more than 16777215`},
		{"bad list", `{"model": {"vocab": [["a", 0.5], ["b"]]}}`, `some.json: key "model.vocab": entry 1 is no [token, score]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := hf.Parse("some.json", []byte(test.json))
			var fault *hf.FileError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, "some.json", fault.File)
			require.EqualError(t, err, test.want)
		})
	}
	_, err := hf.Parse("some.json", []byte(`{"model": {"type": "BPE", "vocab": {"a": 0}}}`))
	require.ErrorContains(t, err, "some.json: the tokenizers library refuses it: ")
}

func TestLoadDirFindsEitherFormAndSaysWhatItLookedFor(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := z.Write([]byte(smallest))
	require.NoError(t, err)
	require.NoError(t, z.Close())

	for name, data := range map[string][]byte{"tokenizer.json": []byte(smallest), "tokenizer.json.gz": zipped.Bytes()} {
		tok, err := hf.LoadDir(fstest.MapFS{name: {Data: data}}, "some/model")
		require.NoError(t, err)
		require.Equal(t, filepath.Join("some/model", name), tok.Name())
		require.Equal(t, 2, tok.VocabSize())
		require.NoError(t, tok.Close())
	}
	_, err = hf.LoadDir(fstest.MapFS{"readme": {}}, "some/model")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "some/model: the folder has no tokenizer: looked for tokenizer.json and tokenizer.json.gz")

	path := filepath.Join(t.TempDir(), "tokenizer.json.gz")
	require.NoError(t, os.WriteFile(path, []byte("this is no gzip"), 0o600))
	_, err = hf.Load(path)
	require.ErrorContains(t, err, path+": gzip: invalid header")
	_, err = hf.Load(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// A file's own truncation would cut prompts silently, its padding would lengthen them.
func TestTruncationAndPaddingOfTheFileAreOff(t *testing.T) {
	const cutting = `{"version":"1.0",
"truncation":{"direction":"Right","max_length":2,"strategy":"LongestFirst","stride":0},
"padding" : {"strategy":{"Fixed":8},"direction":"Right","pad_to_multiple_of":null,"pad_id":1,"pad_type_id":0,"pad_token":"b"},
"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
"model":{"type":"WordLevel","vocab":{"a":0,"b":1},"unk_token":"b"}}`
	tok, err := hf.Parse("some.json", []byte(cutting))
	require.NoError(t, err)
	defer func() { require.NoError(t, tok.Close()) }()
	ids, err := tok.Encode("b a b a b", true)
	require.NoError(t, err)
	require.Equal(t, []uint32{1, 0, 1, 0, 1}, ids)
}

func TestEndTokensComeFromAllFilesOfTheModel(t *testing.T) {
	const named = `{"eos_token": "b"}`
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []uint32
		err   string
	}{
		{name: "none", want: nil},
		{name: "one id", files: map[string]string{"generation_config.json": `{"eos_token_id": 7}`}, want: []uint32{7}},
		{name: "a list and a name", files: map[string]string{"generation_config.json": `{"eos_token_id": [9, 7, 9]}`, "tokenizer_config.json": named}, want: []uint32{1, 7, 9}},
		{name: "config where generation_config has none", files: map[string]string{"generation_config.json": `{"eos_token_id": null}`, "config.json": `{"eos_token_id": 5, "text_config": {"eos_token_id": [6]}}`}, want: []uint32{5, 6}},
		{name: "generation_config beats config", files: map[string]string{"generation_config.json": `{"eos_token_id": 4}`, "config.json": `{"eos_token_id": 5}`}, want: []uint32{4}},
		{name: "a token as an object", files: map[string]string{"tokenizer_config.json": `{"eos_token": {"content": "a", "lstrip": false}}`}, want: []uint32{0}},
		{name: "null", files: map[string]string{"tokenizer_config.json": `{"eos_token": null}`}},
		{name: "unknown name", files: map[string]string{"tokenizer_config.json": `{"eos_token": "c"}`}, err: `m/tokenizer_config.json: key "eos_token": the token "c" is not in the vocabulary of small`},
		{name: "wrong kind", files: map[string]string{"config.json": `{"eos_token_id": "x"}`}, err: `m/config.json: eos_token_id is "x", want a token id or a list of them`},
		{name: "syntax", files: map[string]string{"config.json": "{\n\n]"}, err: `m/config.json:3:1: invalid character ']'`},
	} {
		t.Run(test.name, func(t *testing.T) {
			tok, err := hf.Parse("small", []byte(smallest))
			require.NoError(t, err)
			defer func() { require.NoError(t, tok.Close()) }()
			files := fstest.MapFS{}
			for name, text := range test.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, err := tok.EndTokens(files, "m")
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}
