package main

import (
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// launches is the setting of what is started. In the file a launch is a text as on the command line, or a mapping, which can
// say more: words that need no quoting, and an environment.
func launches(name, usage string, p *[]LaunchSpec) setting {
	s := specs(name, usage, ParseLaunch, p)
	s.lines = true
	s.decodeNodes = func(items []*yaml.Node) (line int, err error) {
		list := make([]LaunchSpec, 0, len(items))
		for i, item := range items {
			spec, line, err := launchOf(item, i+1)
			if err != nil {
				return line, err
			}
			list = append(list, spec)
		}
		*p = list
		return 0, nil
	}
	s.encodeNodes = func() []*yaml.Node {
		nodes := make([]*yaml.Node, 0, len(*p))
		for _, spec := range *p {
			nodes = append(nodes, spec.node())
		}
		return nodes
	}
	return s
}

// launchOf reads one launch of the file; with an error it returns the line at fault.
func launchOf(item *yaml.Node, number int) (spec LaunchSpec, line int, err error) {
	item = resolved(item)
	switch {
	case item.Kind == yaml.ScalarNode && item.Tag != "!!null":
		spec, err = ParseLaunch(item.Value, number)
		return spec, item.Line, err
	case item.Kind != yaml.MappingNode:
		return spec, item.Line, errors.New("takes KIND=COMMAND or a mapping with kind, command and more")
	}
	values := map[string]*yaml.Node{}
	for i := 0; i+1 < len(item.Content); i += 2 {
		key := item.Content[i]
		if values[key.Value] != nil {
			return spec, key.Line, fmt.Errorf("%s is set twice", key.Value)
		}
		values[key.Value] = resolved(item.Content[i+1])
	}
	kind := values["kind"]
	if kind == nil || values["command"] == nil {
		return spec, item.Line, errors.New("a launch needs kind, one of " + strings.Join(launchKinds(), ", ") + ", and command")
	}
	if spec, err = newLaunch(kind.Value, number); err != nil {
		return spec, kind.Line, err
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		key := item.Content[i]
		if key.Value == "kind" {
			continue
		}
		if err := spec.setNode(key.Value, values[key.Value]); err != nil {
			return spec, key.Line, fmt.Errorf("%s: %w", key.Value, err)
		}
	}
	return spec, item.Line, spec.validate()
}

func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// setNode sets what a key of the file names.
func (l *LaunchSpec) setNode(key string, value *yaml.Node) (err error) {
	switch {
	case key == "command" && value.Kind == yaml.SequenceNode:
		l.Command.Words, err = scalars(value.Content)
		return err
	case key == "devices" && value.Kind == yaml.SequenceNode:
		l.Devices, err = scalars(value.Content)
		return err
	case key == "environment" && value.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(value.Content); i += 2 {
			pair, err := scalars(value.Content[i : i+2])
			if err != nil {
				return err
			}
			if strings.ContainsAny(pair[0], "=") {
				return fmt.Errorf("%q is no name of a variable", pair[0])
			}
			l.Command.Environment = append(l.Command.Environment, pair[0]+"="+pair[1])
		}
		return nil
	case key == "environment":
		return errors.New("takes a mapping from variables to their values, e.g. {CUDA_DEVICE_ORDER: PCI_BUS_ID}")
	case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
		return errors.New("takes one plain value; command and devices a list too")
	}
	return l.set(key, value.Value)
}

// scalars reads plain values.
func scalars(nodes []*yaml.Node) ([]string, error) {
	texts := make([]string, 0, len(nodes))
	for _, n := range nodes {
		n = resolved(n)
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return nil, errors.New("takes plain values alone")
		}
		texts = append(texts, n.Value)
	}
	return texts, nil
}

// node is the launch as a mapping that gives it again.
func (l LaunchSpec) node() *yaml.Node {
	top := &yaml.Node{Kind: yaml.MappingNode}
	add := func(key string, value *yaml.Node) { top.Content = append(top.Content, scalar(key), value) }
	list := func(texts []string) *yaml.Node {
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, text := range texts {
			n.Content = append(n.Content, scalar(text))
		}
		return n
	}
	add("kind", scalar(l.Engine.Kind))
	add("name", scalar(l.Engine.Name))
	add("command", list(l.Command.Words))
	for _, option := range l.options() {
		if option[0] == "devices" {
			add("devices", list(l.Devices))
			continue
		}
		add(option[0], scalar(option[1]))
	}
	if len(l.Command.Environment) > 0 {
		environment := &yaml.Node{Kind: yaml.MappingNode}
		for _, variable := range l.Command.Environment {
			name, value, _ := strings.Cut(variable, "=")
			environment.Content = append(environment.Content, scalar(name), scalar(value))
		}
		add("environment", environment)
	}
	return top
}
