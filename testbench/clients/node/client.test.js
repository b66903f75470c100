// OpenAI's official client for Node against a running plimsoll serve; run.sh starts the server and sets PLIMSOLL_URL.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import OpenAI from 'openai'

const url = process.env.PLIMSOLL_URL
const model = 'plimsoll-sim'
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })

const hello = [{ role: 'user', content: 'Say something about ships.' }]
const greedy = { model, messages: hello, temperature: 0, max_tokens: 24 }

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'Get the weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
}

async function collect(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

const text = (chunks, index = 0) =>
  chunks.flatMap((c) => c.choices).filter((c) => c.index === index).map((c) => c.delta?.content ?? c.text ?? '').join('')

// idle waits until the server says that nothing runs and nothing is booked.
async function idle() {
  const names = process.env.PLIMSOLL_IDLE_METRICS.split(' ')
  for (let tries = 0; tries < 200; tries++) {
    const metrics = await (await fetch(`${url}/metrics`)).text()
    const busy = names.flatMap((name) => {
      const lines = metrics.split('\n').filter((line) => line.startsWith(name + ' ') || line.startsWith(name + '{'))
      assert.ok(lines.length > 0, `no metric ${name}`)
      return lines.filter((line) => Number(line.split(' ').at(-1)) !== 0)
    })
    if (busy.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.fail('the server still holds something of a request that has gone')
}

test('chat', async () => {
  const { data, response, request_id: requestID } = await client.chat.completions.create(greedy).withResponse()
  assert.equal(data.object, 'chat.completion')
  assert.equal(data.model, model)
  assert.equal(data.choices.length, 1)
  assert.equal(data.choices[0].message.role, 'assistant')
  assert.ok(data.choices[0].message.content.length > 0)
  assert.ok(['stop', 'length'].includes(data.choices[0].finish_reason))
  assert.ok(data.usage.prompt_tokens > 0)
  assert.ok(data.usage.completion_tokens > 0 && data.usage.completion_tokens <= 24)
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens)
  assert.ok(requestID)
  assert.equal(response.headers.get('x-request-id'), requestID)
})

test('streaming gives the text of the whole answer', async () => {
  const whole = await client.chat.completions.create(greedy)
  const chunks = await collect(await client.chat.completions.create({ ...greedy, stream: true }))
  assert.ok(chunks.length > 2)
  assert.equal(text(chunks), whole.choices[0].message.content)
  assert.equal(new Set(chunks.map((c) => c.id)).size, 1)
  assert.equal(new Set(chunks.map((c) => c.created)).size, 1)
  assert.ok(chunks.every((c) => c.object === 'chat.completion.chunk' && c.model === model))
  assert.equal(chunks[0].choices[0].delta.role, 'assistant')
  const finishes = chunks.flatMap((c) => c.choices).filter((c) => c.finish_reason)
  assert.deepEqual(finishes.map((c) => c.finish_reason), [whole.choices[0].finish_reason])
})

test('the stream helper of the client puts the same answer together', async () => {
  const whole = await client.chat.completions.create(greedy)
  const runner = client.chat.completions.stream(greedy)
  const final = await runner.finalChatCompletion()
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content)
})

test('tools are part of the prompt, and a call comes as text', async () => {
  const without = await client.chat.completions.create(greedy)
  const withTools = await client.chat.completions.create({ ...greedy, tools: [weather] })
  assert.ok(withTools.usage.prompt_tokens > without.usage.prompt_tokens + 20)
  assert.equal(typeof withTools.choices[0].message.content, 'string')
  assert.equal(withTools.choices[0].message.tool_calls, undefined)
  const conversation = [
    ...hello,
    { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'get_weather', arguments: '{"city":"Oslo"}' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: '{"celsius": 3}' },
  ]
  const next = await client.chat.completions.create({ ...greedy, messages: conversation, tools: [weather], tool_choice: 'auto' })
  assert.ok(next.usage.prompt_tokens > withTools.usage.prompt_tokens)
})

test('usage comes with the stream when asked for, and knows the cache', async () => {
  const long = { ...greedy, messages: [{ role: 'user', content: `node ${Date.now()} ${'a long text of many words '.repeat(60)}` }] }
  const options = { stream: true, stream_options: { include_usage: true } }
  const first = (await collect(await client.chat.completions.create({ ...long, ...options }))).at(-1)
  assert.deepEqual(first.choices, [])
  assert.ok(first.usage.prompt_tokens > 100)
  const second = (await collect(await client.chat.completions.create({ ...long, ...options }))).at(-1)
  assert.equal(second.usage.prompt_tokens, first.usage.prompt_tokens)
  assert.ok(second.usage.prompt_tokens_details.cached_tokens > first.usage.prompt_tokens_details.cached_tokens)
  const chunks = await collect(await client.chat.completions.create({ ...long, stream: true }))
  assert.ok(chunks.every((c) => c.usage == null))
})

test('n answers, one choice each', async () => {
  const whole = await client.chat.completions.create({ ...greedy, temperature: 1, seed: 7, n: 2 })
  assert.deepEqual(whole.choices.map((c) => c.index), [0, 1])
  const chunks = await collect(await client.chat.completions.create({ ...greedy, temperature: 1, seed: 7, n: 2, stream: true }))
  for (const choice of whole.choices) assert.equal(text(chunks, choice.index), choice.message.content)
})

test('a stop string ends the text before it', async () => {
  const whole = (await client.chat.completions.create(greedy)).choices[0].message.content
  const stop = whole.slice(Math.floor(whole.length / 2)).trim().slice(0, 4)
  const cut = await client.chat.completions.create({ ...greedy, stop: [stop] })
  assert.equal(cut.choices[0].message.content, whole.slice(0, whole.indexOf(stop)))
  assert.equal(cut.choices[0].finish_reason, 'stop')
})

test('logprobs, one entry a token', async () => {
  const answer = await client.chat.completions.create({ ...greedy, max_tokens: 4, logprobs: true, top_logprobs: 2 })
  const entries = answer.choices[0].logprobs.content
  assert.equal(entries.length, answer.usage.completion_tokens)
  for (const entry of entries) {
    assert.ok(entry.logprob <= 0)
    assert.equal(entry.top_logprobs.length, 2)
  }
})

test('completions: text, list, token array', async () => {
  const one = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 8, temperature: 0 })
  assert.equal(one.object, 'text_completion')
  assert.ok(one.choices[0].text.length > 0)
  const chunks = await collect(await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 8, temperature: 0, stream: true }))
  assert.equal(text(chunks), one.choices[0].text)
  const two = await client.completions.create({ model, prompt: ['Once upon a time', 'It was'], max_tokens: 8, temperature: 0 })
  assert.deepEqual(two.choices.map((c) => c.index), [0, 1])
  assert.equal(two.choices[0].text, one.choices[0].text)
  const tokens = await (await fetch(`${url}/tokenize`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model, prompt: 'Once upon a time' }) })).json()
  const ids = await client.completions.create({ model, prompt: tokens.tokens, max_tokens: 8, temperature: 0 })
  assert.equal(ids.choices[0].text, one.choices[0].text)
})

test('models', async () => {
  const ids = []
  for await (const m of client.models.list()) ids.push(m.id)
  assert.deepEqual(ids, [model])
  assert.equal((await client.models.retrieve(model)).id, model)
  await assert.rejects(client.models.retrieve('nobody'), OpenAI.NotFoundError)
})

test('errors have the classes and fields of the client', async () => {
  const refused = async (change, kind, param) => {
    await assert.rejects(client.chat.completions.create({ ...greedy, ...change }), (error) => {
      assert.ok(error instanceof kind, `${error}`)
      assert.ok(error.message.length > 10)
      assert.ok(error.requestID)
      if (param) assert.equal(error.param, param)
      return true
    })
  }
  await refused({ temperature: 'hot' }, OpenAI.BadRequestError, 'temperature')
  await refused({ messages: [] }, OpenAI.BadRequestError, 'messages')
  await refused({ tools: [weather], tool_choice: 'required' }, OpenAI.BadRequestError, 'tool_choice')
  await refused({ response_format: { type: 'json_object' } }, OpenAI.BadRequestError, 'response_format')
  await refused({ model: 'nobody' }, OpenAI.NotFoundError, 'model')
  await refused({ stream: true, model: 'nobody' }, OpenAI.NotFoundError, 'model')
  await refused({ messages: [{ role: 'user', content: 'many words '.repeat(140000) }] }, OpenAI.BadRequestError)
})

test('an aborted stream leaves nothing behind', async () => {
  const stream = await client.chat.completions.create({ ...greedy, max_tokens: 20000, stream: true })
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta?.content) break // leaving the loop closes the connection
  }
  const controller = new AbortController()
  const pending = client.chat.completions.create({ ...greedy, max_tokens: 20000 }, { signal: controller.signal })
  setTimeout(() => controller.abort(), 200)
  await assert.rejects(pending, OpenAI.APIUserAbortError)
  await idle()
})
