package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"plimsoll/tokenizer/chat"
	"plimsoll/tokenizer/hf"
	"plimsoll/tokenizer/jinja"
	"plimsoll/tokenizer/simmodel"
)

// model is what a model's folder holds for us.
type model struct {
	tokenizer *hf.Tokenizer
	renderer  *chat.Renderer // nil: the model has no chat template, it completes text only
	endTokens []uint32       // IDs that end an answer
}

// folder returns the files of the configured tokenizer, and the name that errors give them.
func folder(c Config) (files fs.FS, name string) {
	if c.TokenizerDir == nil {
		return simmodel.FS(), "embedded " + simmodel.Name
	}
	return os.DirFS(*c.TokenizerDir), *c.TokenizerDir
}

// loadModel reads a model's folder. Errors name the file and, where it has one, the line.
func loadModel(files fs.FS, name string) (*model, error) {
	tokenizer, err := loadTokenizer(files, name)
	if err != nil {
		return nil, err
	}
	ends, err := tokenizer.EndTokens(files, name)
	if err != nil {
		return nil, errors.Join(err, tokenizer.Close())
	}
	renderer, err := loadRenderer(files, name)
	if err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return nil, errors.Join(err, tokenizer.Close())
	}
	return &model{tokenizer: tokenizer, renderer: renderer, endTokens: ends}, nil
}

// loadRenderer reads a folder's chat template. Without one the error matches chat.ErrNoTemplate.
func loadRenderer(files fs.FS, name string) (*chat.Renderer, error) {
	source, err := chat.Load(files, jinja.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return chat.New(source.Template, source.Config())
}

// loadTokenizer reads a folder's tokenizer.json.
func loadTokenizer(files fs.FS, name string) (*hf.Tokenizer, error) {
	if info, err := fs.Stat(files, "."); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder that can be read: --tokenizer takes the folder that holds tokenizer.json", name)
	}
	return hf.LoadDir(files, name)
}
