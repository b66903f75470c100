package chat

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"plimsoll/tokenizer/jinja"
)

// ErrNoTemplate is a model's folder without a chat template: the model can complete text but not chat.
var ErrNoTemplate = errors.New("no chat template")

// Source is what a model's folder says about chat.
type Source struct {
	Template      *jinja.Template
	ToolUse       *jinja.Template // nil: none of its own for requests with tools
	SpecialTokens map[string]string
}

// Config returns the DefaultConfig with what the folder says.
func (s Source) Config() Config {
	cfg := DefaultConfig()
	cfg.SpecialTokens, cfg.ToolUse = s.SpecialTokens, s.ToolUse
	return cfg
}

// The files of a model's folder, as transformers names them.
const (
	jinjaFile     = "chat_template.jinja"
	jsonFile      = "chat_template.json"
	configFile    = "tokenizer_config.json"
	tokensFile    = "special_tokens_map.json"
	additionalDir = "additional_chat_templates"
	toolUseName   = "tool_use"
	defaultName   = "default"
)

// fileBytes is the largest file that is read. A tokenizer_config.json lists added tokens and can have some megabytes.
const fileBytes = 64 << 20

// Load reads a model's chat template and special tokens as transformers finds them: chat_template.jinja, else
// chat_template.json, else tokenizer_config.json; additional_chat_templates/tool_use.jinja beside it. Without a template the
// error matches [ErrNoTemplate]; the special tokens are returned even then. Any other error names the file and the line.
func Load(dir fs.FS, limits jinja.Limits) (Source, error) {
	config, err := readObject(dir, configFile)
	if err != nil {
		return Source{}, err
	}
	tokens, err := specialTokens(dir, config)
	if err != nil {
		return Source{}, err
	}
	src := Source{SpecialTokens: tokens}
	sources, err := templateSources(dir, config)
	if err != nil {
		return Source{}, err
	}
	main, ok := sources[defaultName]
	if !ok {
		return src, fmt.Errorf("%w: neither %s nor %s nor chat_template in %s", ErrNoTemplate, jinjaFile, jsonFile, configFile)
	}
	if src.Template, err = jinja.Compile(main.file, main.text, limits); err != nil {
		return Source{}, fmt.Errorf("chat template: %w", err)
	}
	if tool, ok := sources[toolUseName]; ok {
		if src.ToolUse, err = jinja.Compile(tool.file, tool.text, limits); err != nil {
			return Source{}, fmt.Errorf("chat template: %w", err)
		}
	}
	return src, nil
}

// LoadFile compiles the template in one file, for a template that is given apart from the model's folder.
func LoadFile(dir fs.FS, name string, limits jinja.Limits) (*jinja.Template, error) {
	text, err := readFile(dir, name)
	if err != nil {
		return nil, err
	}
	t, err := jinja.Compile(name, string(text), limits)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	return t, nil
}

// templateSource is the text of a template and where it stands.
type templateSource struct{ file, text string }

// templateSources returns the templates by name.
func templateSources(dir fs.FS, config *jinja.Dict) (map[string]templateSource, error) {
	out := map[string]templateSource{}
	additional, err := fs.Glob(dir, additionalDir+"/*.jinja")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", additionalDir, err)
	}
	for _, name := range append(additional, jinjaFile) {
		text, err := readFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		key := defaultName
		if name != jinjaFile {
			key = strings.TrimSuffix(path.Base(name), ".jinja")
		}
		out[key] = templateSource{name, string(text)}
	}
	if len(out) > 0 {
		return out, nil
	}
	legacy, err := readObject(dir, jsonFile)
	if err != nil {
		return nil, err
	}
	if v, _ := legacy.Get("chat_template"); v != nil {
		return namedTemplates(jsonFile, v)
	}
	v, _ := config.Get("chat_template")
	return namedTemplates(configFile, v)
}

// namedTemplates reads a template, or a list of templates with names.
func namedTemplates(file string, v jinja.Value) (map[string]templateSource, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		return map[string]templateSource{defaultName: {file, x}}, nil
	case *jinja.List:
		out := map[string]templateSource{}
		for i, item := range x.Items {
			d, ok := item.(*jinja.Dict)
			if !ok {
				return nil, fmt.Errorf("%s: chat_template[%d] must be an object with name and template", file, i)
			}
			name, hasName := field[string](d, "name")
			text, hasText := field[string](d, "template")
			if !hasName || !hasText {
				return nil, fmt.Errorf("%s: chat_template[%d] must be an object with name and template", file, i)
			}
			out[name] = templateSource{file + "#" + name, text}
		}
		return out, nil
	}
	return nil, fmt.Errorf("%s: chat_template must be a string or a list", file)
}

// tokenNames are the special tokens that every tokenizer can have.
var tokenNames = [...]string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

// specialTokens reads the special tokens. The older special_tokens_map.json counts only where the configuration does not list
// the added tokens itself, and then comes first.
func specialTokens(dir fs.FS, config *jinja.Dict) (map[string]string, error) {
	out := map[string]string{}
	if err := addTokens(out, configFile, config); err != nil {
		return nil, err
	}
	if extra, ok := field[*jinja.Dict](config, "extra_special_tokens"); ok {
		for name := range extra.All() {
			if err := addToken(out, configFile, extra, name); err != nil {
				return nil, err
			}
		}
	}
	if _, ok := config.Get("added_tokens_decoder"); ok {
		return out, nil
	}
	older, err := readObject(dir, tokensFile)
	if err != nil {
		return nil, err
	}
	return out, addTokens(out, tokensFile, older)
}

func addTokens(out map[string]string, file string, d *jinja.Dict) error {
	for _, name := range tokenNames {
		if err := addToken(out, file, d, name); err != nil {
			return err
		}
	}
	return nil
}

// addToken reads one token: a string, an object with content, or null.
func addToken(out map[string]string, file string, d *jinja.Dict, name string) error {
	v, ok := d.Get(name)
	if !ok {
		return nil
	}
	if added, isObject := v.(*jinja.Dict); isObject {
		v, _ = added.Get("content")
	}
	switch t := v.(type) {
	case nil:
		delete(out, name)
	case string:
		out[name] = t
	default:
		return fmt.Errorf("%s: %s must be a string, an object with content, or null", file, name)
	}
	return nil
}

// readObject reads a JSON object; an absent file is an empty one.
func readObject(dir fs.FS, name string) (*jinja.Dict, error) {
	raw, err := readFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return jinja.NewDict(0), nil
	}
	if err != nil {
		return nil, err
	}
	v, err := jinja.FromJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, lineOf(raw, err), err)
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		return nil, fmt.Errorf("%s:1: must be a JSON object", name)
	}
	return d, nil
}

// lineOf returns the line that a JSON error is on.
func lineOf(raw []byte, err error) int {
	var e *jinja.JSONError
	if !errors.As(err, &e) {
		return 1
	}
	return 1 + bytes.Count(raw[:min(e.Offset, len(raw))], []byte("\n"))
}

// readFile reads a file that is not too large.
func readFile(dir fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if info.Size() > fileBytes {
		return nil, fmt.Errorf("%s: has %d bytes, more than %d", name, info.Size(), fileBytes)
	}
	raw, err := fs.ReadFile(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return raw, nil
}
