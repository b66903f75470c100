package tokenize

// Lane is a kind of steps, with workers and slots of its own.
type Lane uint8

// Lanes; the package comment has a table.
const (
	Short Lane = iota
	Render
	Slices
	Whole

	NumLanes
)

// String is the word used in metrics and tests.
func (l Lane) String() string {
	switch l {
	case Short:
		return "short"
	case Render:
		return "render"
	case Slices:
		return "slices"
	case Whole:
		return "whole"
	case NumLanes:
	}
	return "unknown"
}

// slots is how many steps of each lane a node runs at once that is to tokenize n short inputs at once.
func slots(n int) [NumLanes]int {
	return [NumLanes]int{Short: n, Render: 1, Slices: max(1, n-1), Whole: 1}
}
