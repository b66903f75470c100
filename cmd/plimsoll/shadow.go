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

// checkShadows says what is wrong if a policy is named twice: its figures would count every decision twice.
func checkShadows(policies []shadowPolicy) error {
	for i, p := range policies {
		if slices.Contains(policies[:i], p) {
			return fmt.Errorf("--shadow-policy %s is given twice", p)
		}
	}
	return nil
}
