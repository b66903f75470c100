// Command derive makes the embedded model's tokenizer.json from that of the tiny test model of 4,096 ids (our own work, a
// byte-level BPE). The vocabulary and the merges stay as they are, byte for byte. The tokens that
// mark thinking and tool calls become plain added tokens, because an answer's text must show them to whoever parses it, and
// the two for tool results are added at the end. Run it only to make the file anew:
//
//	go run ./tokenizer/simmodel/derive < tiny/tokenizer.json > tokenizer/simmodel/model/tokenizer.json
package main
