package simmodel

import (
	"embed"
	"fmt"
	"io/fs"

	"plimsoll/tokenizer/hf"
)

// Name is what clients call the embedded model.
const Name = "plimsoll-sim"

// derive makes tokenizer.json; its comment says from what. The template is written for this model.
//
//go:embed model
var files embed.FS

// FS is the model's folder: tokenizer.json, tokenizer_config.json and chat_template.jinja.
func FS() fs.FS {
	sub, err := fs.Sub(files, "model")
	if err != nil {
		panic(fmt.Errorf("the embedded folder has an invalid name: %w", err))
	}
	return sub
}

// Tokenizer loads the model's tokenizer; the caller closes it.
func Tokenizer() (*hf.Tokenizer, error) { return hf.LoadDir(FS(), "embedded "+Name) }
