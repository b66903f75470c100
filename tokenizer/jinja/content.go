package jinja

// ContentFormat says in which form a template expects a message's content.
type ContentFormat uint8

// The forms.
const (
	// ContentString is one string.
	ContentString ContentFormat = iota
	// ContentOpenAI is a list of parts: [{"type": "text", "text": ...}].
	ContentOpenAI
)

// String returns vLLM's name of the form.
func (f ContentFormat) String() string {
	switch f {
	case ContentString:
		return "string"
	case ContentOpenAI:
		return "openai"
	}
	return "unknown"
}

// ContentFormat finds the form from the template itself, as vLLM does with --chat-template-content-format auto: a template that
// loops over the content of a message it loops over expects parts.
func (t *Template) ContentFormat() ContentFormat {
	f := contentFinder{assigned: map[string][]*target{}}
	f.block(t.body)
	lists, ok := f.messageLists()
	if !ok {
		return ContentString
	}
	items := map[string]bool{}
	for _, l := range f.loops {
		if name, key := accessed(l.source); key == "" && lists[name] {
			if !l.target.isName() {
				return ContentString
			}
			items[l.target.name] = true
		}
	}
	for _, l := range f.loops {
		if name, key := accessed(l.source); key == "content" && items[name] {
			if !l.target.isName() {
				return ContentString
			}
			return ContentOpenAI
		}
	}
	return ContentString
}

// contentFinder collects the loops of a template, and the targets that a variable is assigned to.
type contentFinder struct {
	loops    []*forStmt
	assigned map[string][]*target
}

func (f *contentFinder) block(b block) {
	for _, n := range b {
		switch x := n.stmt.(type) {
		case *forStmt:
			f.loops = append(f.loops, x)
		case *setStmt:
			if name, key := accessed(x.value); key == "" && name != "" {
				f.assigned[name] = append(f.assigned[name], x.target)
			}
		}
		for _, body := range bodies(n.stmt) {
			f.block(body)
		}
	}
}

// messageLists returns the names that "messages" goes by; ok is false if it is taken apart.
func (f *contentFinder) messageLists() (lists map[string]bool, ok bool) {
	lists = map[string]bool{"messages": true}
	for queue := []string{"messages"}; len(queue) > 0; queue = queue[1:] {
		for _, t := range f.assigned[queue[0]] {
			if !t.isName() {
				return nil, false
			}
			if !lists[t.name] {
				lists[t.name] = true
				queue = append(queue, t.name)
			}
		}
	}
	return lists, true
}

// accessed returns the variable that an expression walks over, seen through filters, tests and slices, and the key of it,
// if it is one step away.
func accessed(e expr) (name, key string) {
	for {
		switch x := e.(type) {
		case *filterExpr:
			e = x.value
		case *testExpr:
			e = x.value
		case *sliceExpr:
			e = x.value
		case *nameExpr:
			return x.name, ""
		case *attrExpr:
			if n, ok := x.value.(*nameExpr); ok {
				return n.name, x.name
			}
			return "", ""
		case *itemExpr:
			n, isName := x.value.(*nameExpr)
			c, isConst := x.key.(*constExpr)
			if isName && isConst {
				if key, ok := c.value.(string); ok {
					return n.name, key
				}
			}
			return "", ""
		default:
			return "", ""
		}
	}
}
