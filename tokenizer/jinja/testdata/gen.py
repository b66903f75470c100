#!/usr/bin/env python3
"""Makes goldens.jsonl: every template in templates/ rendered by jinja2 over every conversation in conversations.json.

Needs Python 3 and jinja2 (3.1.6 made the committed file), nothing else:  python3 gen.py
The environment is the one that transformers sets up for chat templates. Each line of goldens.jsonl has either "text", byte for
byte, or "error", the exception's type and message. The clock stands at 2025-07-04 09:05:03.
"""

import datetime
import glob
import json
import os
import warnings

import jinja2
import jinja2.ext
import jinja2.nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
NOW = datetime.datetime(2025, 7, 4, 9, 5, 3)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


class Generation(jinja2.ext.Extension):
    """{% generation %} marks the model's own text; the text itself stays."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_plain"), [], [], body).set_lineno(line)

    def _plain(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: NOW.strftime(format)
    return env


def render(template, conversation):
    try:
        return {"text": template.render(
            messages=conversation["messages"], tools=conversation["tools"], documents=conversation["documents"],
            add_generation_prompt=conversation["add_generation_prompt"], **SPECIAL, **conversation["kwargs"])}
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"}


def main():
    warnings.simplefilter("ignore")
    env = environment()
    with open(os.path.join(HERE, "conversations.json"), encoding="utf-8") as f:
        raw = f.read()
    with open(os.path.join(HERE, "goldens.jsonl"), "w", encoding="utf-8") as out:
        for path in sorted(glob.glob(os.path.join(HERE, "templates", "*.jinja"))):
            with open(path, encoding="utf-8", newline="") as f:
                source = f.read()
            try:
                template, failure = env.from_string(source), None
            except Exception as e:
                template, failure = None, {"error": f"{type(e).__name__}: {e}"}
            for conversation in json.loads(raw):
                record = {
                    "template": os.path.basename(path), "conversation": conversation["name"],
                    "kwargs": conversation["kwargs"], "add_generation_prompt": conversation["add_generation_prompt"],
                }
                record.update(failure or render(template, conversation))
                out.write(json.dumps(record, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
