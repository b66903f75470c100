package main

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/scoring/policy"
)

// shadowPolicy is the name of a policy that is tried on the traffic.
type shadowPolicy string

// String is what --shadow-policy takes.
func (p shadowPolicy) String() string { return string(p) }

func parseShadow(text string, _ int) (shadowPolicy, error) {
	if !slices.Contains(policy.Names(), text) {
		return "", fmt.Errorf("unknown policy %q: choose one of %s", text, strings.Join(policy.Names(), ", "))
	}
	return shadowPolicy(text), nil
}
