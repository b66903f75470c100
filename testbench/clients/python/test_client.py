"""OpenAI's official client for Python against a running plimsoll serve; run.sh starts the server and sets PLIMSOLL_URL."""

import asyncio
import json
import os
import time
import unittest
import urllib.request

import openai

URL = os.environ["PLIMSOLL_URL"]
MODEL = "plimsoll-sim"
HELLO = [{"role": "user", "content": "Say something about ships."}]
GREEDY = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 24}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def text(chunks, index=0):
    """The text of one choice of a stream."""
    choices = [c for chunk in chunks for c in chunk.choices if c.index == index]
    return "".join((c.delta.content if hasattr(c, "delta") else c.text) or "" for c in choices)


def busy():
    """The lines of /metrics that say that something runs or is booked."""
    with urllib.request.urlopen(f"{URL}/metrics") as response:
        lines = response.read().decode().splitlines()
    found = []
    for name in os.environ["PLIMSOLL_IDLE_METRICS"].split():
        rows = [line for line in lines if line.startswith((name + " ", name + "{"))]
        assert rows, f"no metric {name}"
        found += [row for row in rows if float(row.split()[-1]) != 0]
    return found


class ClientTest(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
        self.addCleanup(self.client.close)

    def chat(self, **change):
        return self.client.chat.completions.create(**{**GREEDY, **change})

    def assert_idle(self):
        for _ in range(200):
            if not busy():
                return
            time.sleep(0.05)
        self.fail(f"the server still holds something of a request that has gone: {busy()}")

    def test_chat(self):
        raw = self.client.chat.completions.with_raw_response.create(**GREEDY)
        answer = raw.parse()
        self.assertEqual(answer.object, "chat.completion")
        self.assertEqual(answer.model, MODEL)
        self.assertEqual(len(answer.choices), 1)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 24)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertTrue(answer._request_id)
        self.assertEqual(raw.headers["x-request-id"], answer._request_id)

    def test_streaming_gives_the_text_of_the_whole_answer(self):
        whole = self.chat()
        chunks = list(self.chat(stream=True))
        self.assertGreater(len(chunks), 2)
        self.assertEqual(text(chunks), whole.choices[0].message.content)
        self.assertEqual(len({c.id for c in chunks}), 1)
        self.assertEqual(len({c.created for c in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        finishes = [c.finish_reason for chunk in chunks for c in chunk.choices if c.finish_reason]
        self.assertEqual(finishes, [whole.choices[0].finish_reason])

    def test_the_asynchronous_client(self):
        async def stream():
            async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0) as client:
                chunks = await client.chat.completions.create(**GREEDY, stream=True)
                return [chunk async for chunk in chunks]

        self.assertEqual(text(asyncio.run(stream())), self.chat().choices[0].message.content)

    def test_tools_are_part_of_the_prompt_and_a_call_comes_as_text(self):
        without, with_tools = self.chat(), self.chat(tools=[WEATHER])
        self.assertGreater(with_tools.usage.prompt_tokens, without.usage.prompt_tokens + 20)
        self.assertIsInstance(with_tools.choices[0].message.content, str)
        self.assertIsNone(with_tools.choices[0].message.tool_calls)
        call = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}}
        conversation = [
            *HELLO,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": '{"celsius": 3}'},
        ]
        later = self.chat(messages=conversation, tools=[WEATHER], tool_choice="auto")
        self.assertGreater(later.usage.prompt_tokens, with_tools.usage.prompt_tokens)

    def test_usage_comes_with_the_stream_when_asked_for_and_knows_the_cache(self):
        long = [{"role": "user", "content": f"python {time.time_ns()} " + "a long text of many words " * 60}]
        first, second = (list(self.chat(messages=long, stream=True, stream_options={"include_usage": True}))[-1] for _ in range(2))
        self.assertEqual(first.choices, [])
        self.assertGreater(first.usage.prompt_tokens, 100)
        self.assertEqual(second.usage.prompt_tokens, first.usage.prompt_tokens)
        self.assertGreater(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens_details.cached_tokens)
        self.assertTrue(all(chunk.usage is None for chunk in self.chat(messages=long, stream=True)))

    def test_n_answers_one_choice_each(self):
        whole = self.chat(temperature=1, seed=7, n=2)
        self.assertEqual([c.index for c in whole.choices], [0, 1])
        chunks = list(self.chat(temperature=1, seed=7, n=2, stream=True))
        for choice in whole.choices:
            self.assertEqual(text(chunks, choice.index), choice.message.content)

    def test_a_stop_string_ends_the_text_before_it(self):
        whole = self.chat().choices[0].message.content
        stop = whole[len(whole) // 2 :].strip()[:4]
        cut = self.chat(stop=stop)
        self.assertEqual(cut.choices[0].message.content, whole[: whole.index(stop)])
        self.assertEqual(cut.choices[0].finish_reason, "stop")

    def test_logprobs_one_entry_a_token(self):
        answer = self.chat(max_tokens=4, logprobs=True, top_logprobs=2)
        entries = answer.choices[0].logprobs.content
        self.assertEqual(len(entries), answer.usage.completion_tokens)
        for entry in entries:
            self.assertLessEqual(entry.logprob, 0)
            self.assertEqual(len(entry.top_logprobs), 2)

    def test_completions_of_text_list_and_tokens(self):
        def complete(prompt, **change):
            return self.client.completions.create(model=MODEL, prompt=prompt, max_tokens=8, temperature=0, **change)

        one = complete("Once upon a time")
        self.assertEqual(one.object, "text_completion")
        self.assertTrue(one.choices[0].text)
        self.assertEqual(text(list(complete("Once upon a time", stream=True))), one.choices[0].text)
        two = complete(["Once upon a time", "It was"])
        self.assertEqual([c.index for c in two.choices], [0, 1])
        self.assertEqual(two.choices[0].text, one.choices[0].text)
        body = json.dumps({"model": MODEL, "prompt": "Once upon a time"}).encode()
        request = urllib.request.Request(f"{URL}/tokenize", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            ids = json.load(response)["tokens"]
        self.assertEqual(complete(ids).choices[0].text, one.choices[0].text)

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], [MODEL])
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("nobody")

    def test_errors_have_the_classes_and_fields_of_the_client(self):
        for change, kind, param in (
            ({"temperature": "hot"}, openai.BadRequestError, "temperature"),
            ({"messages": []}, openai.BadRequestError, "messages"),
            ({"tools": [WEATHER], "tool_choice": "required"}, openai.BadRequestError, "tool_choice"),
            ({"response_format": {"type": "json_object"}}, openai.BadRequestError, "response_format"),
            ({"model": "nobody"}, openai.NotFoundError, "model"),
            ({"model": "nobody", "stream": True}, openai.NotFoundError, "model"),
            ({"messages": [{"role": "user", "content": "many words " * 140_000}]}, openai.BadRequestError, None),
        ):
            with self.subTest(param=param), self.assertRaises(kind) as caught:
                self.chat(**change)
            self.assertTrue(caught.exception.message)
            self.assertTrue(caught.exception.request_id)
            if param:
                self.assertEqual(caught.exception.param, param)

    def test_an_aborted_stream_leaves_nothing_behind(self):
        stream = self.chat(max_tokens=20_000, stream=True)
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                break
        stream.close()
        with self.assertRaises(openai.APITimeoutError):
            self.client.with_options(timeout=0.3).chat.completions.create(**{**GREEDY, "max_tokens": 20_000})
        self.assert_idle()


if __name__ == "__main__":
    unittest.main(verbosity=2)
