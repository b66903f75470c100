package simmodel

// slots are the words that a place in a sentence may take, by the place's name.
func slots() map[string][]string {
	return map[string][]string{
		"quality": {"plain", "small", "heavy", "quiet", "narrow", "long", "simple", "slow", "patient", "grey"},
		"vessel":  {"ship", "boat", "ferry", "barge", "freighter", "steamer", "tug", "tanker"},
		"person":  {"captain", "pilot", "first mate", "harbour master", "cook", "lighthouse keeper", "clerk", "stoker"},
		"cargo":   {"coal", "grain", "timber", "salt", "wool", "tea", "iron", "sugar"},
		"place":   {"in the harbour", "near the lighthouse", "at the quay", "off the coast", "in the bay", "under the bridge", "beside the pier"},
		"time":    {"at dawn", "before noon", "in the evening", "after the rain", "at high tide", "on a cold morning", "once a week"},
		"watches": {"counts the crates", "reads the marks on the hull", "waits for the tide", "writes a line in the log", "checks the ropes", "looks at the sky"},
		"reason":  {"the wind turns", "the water is low", "the hold is full", "the fog comes in", "the day is short", "the crew is tired"},
		"rule":    {"never load past the mark", "keep the weight low", "leave room for the way back", "measure before the tide turns", "stow the heavy things first"},
		"result":  {"nothing is lost", "the load stays even", "the trip takes a day less", "every crate is found again", "the deck stays dry"},
		"number":  {"two", "three", "four", "five", "seven", "ten", "twelve"},
		"unit":    {"crates", "barrels", "sacks", "bales", "boxes"},
		"sea":     {"sea", "river", "wind", "tide", "fog", "current"},
		"mood":    {"calm", "rough", "mild", "gentle", "steady", "cold"},
	}
}

// sentences are what an answer is made of. A name in braces stands for one of its slot's words.
func sentences() []string {
	return []string{
		"The {quality} {vessel} lies {place} and waits for {cargo}.",
		"The {quality} {vessel} leaves {time} with {number} {unit} of {cargo}.",
		"The {person} {watches} {time}.",
		"The {person} {watches}, because {reason}.",
		"The {sea} is {mood} {time}, so the {vessel} stays {place}.",
		"The {sea} is {mood} today, and the {person} {watches}.",
		"A {quality} {vessel} can carry {number} {unit} of {cargo}, but not one more.",
		"A {quality} {vessel} needs a {mood} {sea} and a {person} who {watches}.",
		"Every {person} knows the rule: {rule}.",
		"Every {vessel} has a mark on its hull, and the {person} {watches} {time}.",
		"When {reason}, the {person} {watches}.",
		"When {reason}, the {vessel} waits {place} and {result}.",
		"If {reason}, {rule}, and {result}.",
		"If the {sea} is {mood}, the {vessel} leaves {time}.",
		"There are {number} {unit} of {cargo} {place}.",
		"There is room for {number} more {unit} if {reason}.",
		"Nobody asks the {person} why {reason}.",
		"So {rule}, and {result}.",
		"In the end {result}, and the {vessel} goes home {time}.",
		"Most of the {cargo} goes to the {quality} {vessel} {place}.",
		"Some say {reason}, but the {person} {watches} and {result}.",
		"First comes the {cargo}, then the {number} {unit} that stand {place}.",
		"Only {number} {unit} of {cargo} are left {place}.",
		"One {person} and {number} {unit} of {cargo} are enough for a {quality} {vessel}.",
	}
}
