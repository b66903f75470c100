package trial

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/actors/router"
	"plimsoll/scoring/policy"
	"plimsoll/testbench/fleet"
)

// Variants of a run are named behind its policy.
const (
	// Unqueued runs it as behind a router without queue and admission: each request goes to an engine at once, as it does where
	// most policies were published. The default policy is nothing without its queue.
	Unqueued = "-unqueued"
	// Strict reserves all that a request may produce.
	Strict = "-strict"
	// Understated has answers become twice as long as the router predicts: of their lengths it hears a half.
	Understated = "-understated"
)

type variant struct {
	suffix string
	change func(*fleet.Config)
}

func variants() []variant {
	return []variant{
		{Unqueued, func(c *fleet.Config) { c.Unqueued = true }},
		{Strict, func(c *fleet.Config) { c.Router.Admission = router.Strict }},
		{Understated, func(c *fleet.Config) { c.HeardShare = 0.5 }},
	}
}

// variantOf parts a name into a policy's and what the variant behind it, if there is one, changes.
func variantOf(name string) (plain string, change func(*fleet.Config)) {
	for _, v := range variants() {
		if plain, ok := strings.CutSuffix(name, v.suffix); ok {
			return plain, v.change
		}
	}
	return name, func(*fleet.Config) {}
}

// CheckPolicy reports a name that is not one of a policy, with a variant behind it or without.
func CheckPolicy(name string) error {
	plain, _ := variantOf(name)
	switch {
	case !slices.Contains(policy.Names(), plain):
		suffixes := make([]string, 0, len(variants()))
		for _, v := range variants() {
			suffixes = append(suffixes, v.suffix)
		}
		return fmt.Errorf("unknown policy %q: choose one of %s, and one of %s behind it if you like", name,
			strings.Join(policy.Names(), ", "), strings.Join(suffixes, ", "))
	case name == policy.Names()[0]+Unqueued:
		return fmt.Errorf("policy %q: %s is nothing without its queue", name, plain)
	}
	return nil
}
