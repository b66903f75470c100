// Command plimsoll serves the OpenAI API in front of a fleet of LLM engine replicas. It is wiring: one file a subcommand, no
// logic beyond reading the configuration and putting the rooms together.
//
//	flags ─┐
//	env ───┼─▶ Config ─▶ serve ─┬─▶ engines (engine/sim/live, engine/llamacpp)
//	file ──┘                    ├─▶ the model's tokenizer and chat template (tokenizer/...)
//	                            ├─▶ actors.Start(engines, model)
//	                            └─▶ ingress.New ─▶ http.Server
//
// settings.go is the one list of what can be set; flags, environment variables (PLIMSOLL_ and the flag's name), the keys of
// the configuration file and its printer are derived from it. A flag beats the environment, which beats the file.
//
// # Exit codes
//
// 0: all went well. 1: it was tried and failed. 2: it was not tried, because what was asked for makes no sense; the message
// says what to do. Errors are one line on the standard error, after "plimsoll: ".
package main
