package main

// engineKinds lists the words that may stand before = in --replica.
func engineKinds() []string { return []string{"llamacpp", kindSim} }

// simProfiles lists the profiles of simulated replicas.
func simProfiles() []string { return []string{"h100-8b", "tiny"} }

// policyNames lists the policies, the default first.
func policyNames() []string { return []string{"token-load", "round-robin"} }
