package chat

import "bytes"

// jsonBlanks are what may stand between the parts of a JSON text.
const jsonBlanks = " \t\r\n"

// CountMessages counts the messages of a request, without reading them: the members of the JSON array that it is, or 0 if it is
// something else.
func CountMessages(raw []byte) int {
	raw = bytes.TrimLeft(raw, jsonBlanks)
	if len(raw) == 0 || raw[0] != '[' || bytes.HasPrefix(bytes.TrimLeft(raw[1:], jsonBlanks), []byte("]")) {
		return 0
	}
	count, depth := 1, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return count
			}
		case ',':
			if depth == 1 {
				count++
			}
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		}
	}
	return 0
}
