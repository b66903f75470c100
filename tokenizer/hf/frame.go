package hf

import "slices"

// frame finds what the post-processor puts around a text's ids; false if that is not the same for a few texts that are as unlike
// as can be.
func frame(encode func(text string, addSpecial bool) []uint32) (before, after []uint32, ok bool) {
	for i, text := range []string{"a", "B c, d", "1\n\n  2", "語 é!"} {
		bare, full := encode(text, false), encode(text, true)
		for at := 0; i == 0 && at+len(bare) <= len(full); at++ {
			if slices.Equal(full[at:at+len(bare)], bare) {
				before, after = full[:at], full[at+len(bare):]
				break
			}
		}
		if !slices.Equal(slices.Concat(before, bare, after), full) {
			return nil, nil, false
		}
	}
	return before, after, true
}
