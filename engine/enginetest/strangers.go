package enginetest

import "net/http"

// Stranger is a server that is none of the kinds that we speak to, and where that shows first.
type Stranger struct {
	Routes map[string]Answer // what it answers; 404 is what other paths get, unless Else says otherwise
	Else   *Answer
}

// Serve runs the server on each connection. It is a script for [Serve].
func (s Stranger) Serve(session *Session) {
	for more := true; more; more = session.Next() {
		answer, ok := s.Routes[session.Request.URL.Path]
		if !ok && s.Else != nil {
			answer = *s.Else
		}
		session.Answer(answer)
	}
}

// Strangers are servers that operators have named by mistake.
func Strangers() map[string]Stranger {
	plain := func(body string) Answer { return Answer{Status: http.StatusOK, Body: body} }
	typed := func(media, body string) Answer {
		return Answer{Status: http.StatusOK, Header: [][2]string{{"Content-Type", media}}, Body: body}
	}
	list := func(owner string) Answer {
		return typed("application/json", `{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"`+owner+`"}]}`)
	}
	page := typed("text/html; charset=utf-8", "<!doctype html><title>Welcome</title>")
	away := Answer{Status: http.StatusFound, Header: [][2]string{{"Location", "https://login.example/"}}}
	return map[string]Stranger{
		"Ollama": {Routes: map[string]Answer{"/": plain("Ollama is running"), "/v1/models": list("library")}},
		"TGI": {Routes: map[string]Answer{
			"/health": plain(""), "/v1/models": list("org/m"), "/info": plain(`{"model_id":"org/m"}`),
			"/metrics": plain("# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n"),
		}},
		"SGLang":       {Routes: map[string]Answer{"/health": plain(""), "/v1/models": list("sglang"), "/version": plain("{}")}},
		"TensorRT-LLM": {Routes: map[string]Answer{"/health": plain(""), "/v1/models": list("tensorrt_llm"), "/metrics": typed("application/json", "[]")}},
		"a page":       {Else: &page},
		"a redirect":   {Else: &away},
	}
}
