package main

import (
	"fmt"
	"strings"
	"time"

	"plimsoll/actors/stream"
	"plimsoll/scoring/queue"
)

// SLOSpec is what one --slo says.
type SLOSpec struct {
	Class queue.Class
	stream.SLO
}

// ParseSLO reads CLASS[,ttft=TIME][,tpot=TIME].
func ParseSLO(text string, _ int) (SLOSpec, error) {
	name, options, _ := strings.Cut(text, ",")
	spec := SLOSpec{Class: queue.NumClasses}
	words := make([]string, 0, queue.NumClasses)
	for class := range queue.NumClasses {
		words = append(words, class.String())
		if class.String() == name {
			spec.Class = class
		}
	}
	switch {
	case spec.Class == queue.NumClasses:
		return SLOSpec{}, fmt.Errorf("%q does not begin with a class: write one of %s, e.g. --slo priority,ttft=2s", text, strings.Join(words, ", "))
	case options == "":
		return SLOSpec{}, fmt.Errorf("class %s: say how fast its answers have to come: ttft=TIME, tpot=TIME or both", name)
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		place := map[string]**time.Duration{"ttft": &spec.TTFT, "tpot": &spec.TPOT}[key]
		switch {
		case place == nil:
			return SLOSpec{}, fmt.Errorf("class %s: %s: no such option: there are ttft and tpot", name, option)
		case *place != nil:
			return SLOSpec{}, fmt.Errorf("class %s: %s is set twice", name, key)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return SLOSpec{}, fmt.Errorf("class %s: %s: write a positive duration, e.g. %s=2s or %s=50ms", name, option, key, key)
		}
		*place = &d
	}
	return spec, nil
}

// String is the inverse of [ParseSLO].
func (s SLOSpec) String() string {
	text := s.Class.String()
	if s.TTFT != nil {
		text += ",ttft=" + s.TTFT.String()
	}
	if s.TPOT != nil {
		text += ",tpot=" + s.TPOT.String()
	}
	return text
}

// slosOf are the SLOs by class.
func slosOf(specs []SLOSpec) (map[queue.Class]stream.SLO, error) {
	slos := map[queue.Class]stream.SLO{}
	for _, s := range specs {
		if _, ok := slos[s.Class]; ok {
			return nil, fmt.Errorf("--slo %s is given twice", s.Class)
		}
		slos[s.Class] = s.SLO
	}
	return slos, nil
}
