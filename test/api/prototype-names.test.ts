import { beforeAll, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { type ClientName, clientWires } from '../harness/client-wires.ts'
import { textCompletion } from '../harness/scripted-completions.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { type Behaviour, status } from '../harness/scripted-upstream.ts'
import { type ScriptedDialect, vendorAnswer } from '../harness/scripted-vendors.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// `__proto__`, `constructor` and `prototype` are unknown names in every dialect: wherever one of them stands in a body, the gateway
// does what it does with a name that means nothing. It refuses it, names it as dropped, or hands it on, in the same words.

const vendors: readonly ScriptedDialect[] = ['chat', 'messages', 'gemini', 'responses']
const scores = status(200, { results: [{ index: 0, relevance_score: 0.5 }], usage: { total_tokens: 20 } })
const servers: readonly (readonly [model: string, behaviour: Behaviour])[] = [
  ...vendors.map(dialect => [dialect, vendorAnswer(dialect, { text: 'Hello' })] as const),
  ['completions', textCompletion()],
  ['embeddings', embeddings()],
  ['rerank', scores],
]

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: servers.map(([modelId]) => {
    const offer = testOffer(upstream.baseUrl, {
      modelId,
      features: new Set(['tools', 'json_schema', modelId]) as never,
    })
    const speaks = modelId === 'chat' ? {} : vendors.some(dialect => dialect === modelId) ? { speaks: [modelId] } : {}
    return { ...offer, endpoint: { ...offer.endpoint, endpointId: modelId }, ...(speaks as object) }
  }),
}))
let behaviour: Behaviour
beforeAll(() => upstream.always((request, response) => behaviour(request, response)))

const parameters = { type: 'object', properties: { at: { type: 'string', enum: ['sea'] } }, required: ['at'] }
const chatTool = { type: 'function', function: { name: 'look', description: 'Looks.', parameters } }

/** More of a body, so that it has objects of every kind. */
const rich: Readonly<Record<ClientName, object>> = {
  chat: {
    messages: [
      { role: 'system', content: 'Be short.' },
      { role: 'user', content: [{ type: 'text', text: 'Look.' }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"sea"}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'A ship.' },
    ],
    tools: [chatTool],
    tool_choice: { type: 'function', function: { name: 'look' } },
    stream_options: null,
    logit_bias: { 5: 1 },
    response_format: { type: 'json_schema', json_schema: { name: 'a', schema: parameters } },
    metadata: { a: 'b' },
    store: true,
  },
  completions: { logit_bias: { 5: 1 } },
  embeddings: {},
  rerank: { documents: [{ text: 'A ship.' }] },
  responses: {
    input: [
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Look.' }] },
      { type: 'function_call', call_id: 'c1', name: 'look', arguments: '{"at":"sea"}' },
      { type: 'function_call_output', call_id: 'c1', output: 'A ship.' },
    ],
    tools: [{ type: 'function', name: 'look', parameters, strict: false }],
    tool_choice: { type: 'function', name: 'look' },
    reasoning: { effort: 'low' },
    text: { format: { type: 'json_schema', name: 'a', schema: parameters }, verbosity: 'low' },
    metadata: { a: 'b' },
  },
  messages: {
    system: [{ type: 'text', text: 'Be short.', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Look.' }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 'c1', name: 'look', input: { at: 'sea' } }] },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'c1', content: [{ type: 'text', text: 'A ship.' }] }],
      },
    ],
    tools: [{ name: 'look', description: 'Looks.', input_schema: parameters }],
    tool_choice: { type: 'auto' },
    thinking: { type: 'disabled' },
    metadata: { user_id: 'u' },
    output_config: { effort: 'low' },
  },
  gemini: {
    systemInstruction: { parts: [{ text: 'Be short.' }] },
    contents: [
      { role: 'user', parts: [{ text: 'Look.' }] },
      { role: 'model', parts: [{ functionCall: { name: 'look', args: { at: 'sea' } } }] },
      { role: 'user', parts: [{ functionResponse: { name: 'look', response: { output: { ship: 1 } } } }] },
    ],
    tools: [{ functionDeclarations: [{ name: 'look', description: 'Looks.', parameters }] }],
    toolConfig: { functionCallingConfig: { mode: 'AUTO' } },
    generationConfig: { thinkingConfig: { thinkingBudget: 100 }, responseMimeType: 'text/plain' },
  },
}

/** A member whose value would be noticed, were it a prototype or merged. */
const value = '{"polluted":1,"stream":true,"type":"polluted","max_tokens":1,"dry_run":true}'
const prototypeNames = ['__proto__', 'constructor', 'prototype']
/** No other text has it. */
const MARK = 'unheard'

/** The texts of a body, each with the member `name` in another of its objects. */
function* bodiesWith(body: object, name: string): Generator<readonly [place: string, text: string]> {
  for (const [place, object] of objectsOf(body, 'body')) {
    const named = { ...object, [MARK]: MARK }
    const text = JSON.stringify(body, (_key, each) => (each === object ? named : each))
    yield [place, text.replace(`"${MARK}":"${MARK}"`, `"${name}":${value}`)]
  }
}

function* objectsOf(found: unknown, place: string): Generator<readonly [place: string, object: object]> {
  if (typeof found !== 'object' || found === null) return
  if (!Array.isArray(found)) yield [place, found]
  for (const [key, child] of Object.entries(found)) yield* objectsOf(child, `${place}.${key}`)
}

const cases = (Object.keys(rich) as ClientName[]).flatMap(client => {
  const tasks = ['completions', 'embeddings', 'rerank']
  const models = tasks.includes(client) ? [client] : vendors
  return models.map(model => [client, model] as const)
})

test.each(cases)(
  'a client of %s at a server of %s: prototype names are unknown names, at every place',
  async (client, model) => {
    behaviour = servers.find(([server]) => server === model)![1]
    // More requests than a customer may send in a minute.
    const keys = new Map<string, string>()
    for (const name of [MARK, ...prototypeNames]) keys.set(name, (await gateway.customer()).key)
    const wire = clientWires[client].request({ model, key: '', text: 'Hello', maxTokens: 64, stream: false })
    const body = { ...wire.body, ...rich[client] }
    const outcome = async (text: string, name: string) => {
      const before = upstream.requests.length
      const response = await fetch(`${gateway.url}${wire.path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${keys.get(name)}` },
        body: text,
      })
      const answer = await response.text()
      const all = {
        status: response.status,
        error: response.ok ? null : answer.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, 'id'),
        dropped: response.headers.get('x-switchyard-dropped-fields'),
        sent: upstream.requests.slice(before).map(({ rawBody }) => rawBody),
      }
      return JSON.stringify(all).replaceAll(name, MARK)
    }
    const plain = new Map(bodiesWith(body, MARK))
    const outcomes = new Map<string, string>()
    for (const [place, text] of plain) outcomes.set(place, await outcome(text, MARK))
    for (const name of prototypeNames) {
      for (const [place, text] of bodiesWith(body, name)) {
        expect(await outcome(text, name), `${name} in ${place}`).toBe(outcomes.get(place))
      }
    }
    expect('polluted' in {}).toBe(false)
    expect([...outcomes.values()].some(text => text.includes(MARK))).toBe(true)
    expect([...outcomes.values()].some(text => text.includes('"status":200'))).toBe(true)
  },
)
