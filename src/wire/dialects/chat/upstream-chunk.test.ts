import { describe, expect, it } from 'vitest'
import type { ChatChunk } from '../../../base/domain/completion.ts'
import { chatStream } from './chat-stream.ts'
import { hasContent } from './content.ts'
import { ChunkNormaliser } from './upstream-chunk.ts'

const envelope = { id: 'chatcmpl-0198c0de-0000-7000-8000-00000000abcd', created: 1_750_000_000, model: 'public-model' }

/** Returns the chunks that a client gets for these upstream events and the end of the stream. */
function normalised(events: readonly unknown[], choices = 1, hidesReasoning = false): ChatChunk[] {
  const normaliser = new ChunkNormaliser(envelope, choices, 131_072, hidesReasoning)
  const chunks = events.flatMap(each => {
    const event = { event: '', data: typeof each === 'string' ? each : JSON.stringify(each) }
    const text = normaliser.text(event)
    return text === null
      ? normaliser.push(event)
      : [chatStream.encoder(envelope, { includeUsage: false }).textChunk(text)]
  })
  return [...chunks, ...normaliser.end()]
}

/** Returns only the deltas, each with its finish_reason if it has one. */
function deltas(events: readonly unknown[]): unknown[] {
  return normalised(events).flatMap(chunk =>
    chunk.choices.map(choice => (choice.finish_reason === null ? choice.delta : [choice.delta, choice.finish_reason])),
  )
}

const delta = (content: unknown, finish_reason: unknown = null) => ({
  choices: [{ index: 0, delta: content, finish_reason }],
})
const text = (content: string) => delta({ content })
const stop = delta({}, 'stop')
const role = { role: 'assistant', content: '' }
const usage = (prompt_tokens: unknown, completion_tokens: unknown) => ({ prompt_tokens, completion_tokens })

function failureOf(events: readonly unknown[]): unknown {
  try {
    normalised(events)
  } catch (failure) {
    return failure
  }
}

describe('a normalised stream', () => {
  it('starts with one role chunk and has the id, time and model of the gateway in every chunk', () => {
    const foreign = { id: 'x', object: 'text', created: 'now', model: 'secret/path.gguf', system_fingerprint: 'fp' }
    const chunks = normalised([
      { ...foreign, ...delta({ role: 'assistant', content: '' }) },
      { ...foreign, id: 'y', ...delta({ role: 'assistant', content: 'Hi' }) },
      { ...foreign, ...stop, usage: usage(3, 1) },
      '[DONE]',
    ])
    const head = { ...envelope, object: 'chat.completion.chunk' }
    const answeredModel = 'secret/path.gguf'
    expect(chunks).toEqual([
      { ...head, choices: [{ index: 0, delta: role, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] },
      { ...head, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
      { ...head, choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4, answeredModel } },
    ])
  })

  it.each<[name: string, events: unknown[], expected: unknown[]]>([
    ['no role at all', [text('a'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'role in every chunk',
      [delta({ ...role, content: 'a' }), delta({ ...role, content: 'b' }), stop],
      [role, { content: 'a' }, { content: 'b' }, [{}, 'stop']],
    ],
    [
      'nulls in deltas',
      [delta({ role: null, content: 'a', tool_calls: null, refusal: null }), stop],
      [role, { content: 'a' }, [{}, 'stop']],
    ],
    ['null delta', [delta(null), text('a'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'content array',
      [delta({ content: [{ type: 'text', text: 'a' }, { type: 'x' }] }), stop],
      [role, { content: 'a' }, [{}, 'stop']],
    ],
    ['finish with content', [delta({ content: 'a' }, 'length')], [role, { content: 'a' }, [{}, 'length']]],
    [
      'finish with every content (new-api issue 378)',
      [delta({ content: 'a' }, 'stop'), delta({ content: 'b' }, 'stop'), delta({ content: 'c' }, 'MAX_TOKENS')],
      [role, { content: 'a' }, { content: 'b' }, { content: 'c' }, [{}, 'length']],
    ],
    [
      'finish in the first chunk (open-webui issue 23921)',
      [delta({ content: '' }, 'stop'), text('a'), text('b')],
      [role, { content: 'a' }, { content: 'b' }, [{}, 'stop']],
    ],
    [
      'finish_reason "null"',
      [delta({ content: 'a' }, 'null'), text('b'), stop],
      [role, { content: 'a' }, { content: 'b' }, [{}, 'stop']],
    ],
    ['empty finish_reason', [delta({ content: 'a' }, ''), stop], [role, { content: 'a' }, [{}, 'stop']]],
    ['several finish reasons', [text('a'), stop, delta({}, 'length'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    ['content after finish', [text('a'), stop, text('b')], [role, { content: 'a' }, { content: 'b' }, [{}, 'stop']]],
    ['[DONE] without finish', [text('a'), '[DONE]'], [role, { content: 'a' }, [{}, 'stop']]],
    ['end without [DONE]', [text('a'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    ['events after [DONE]', [text('a'), stop, '[DONE]', text('b'), '{{{'], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'text after [DONE] that looks like the text before it',
      [text('a'), text('b'), '[DONE]', text('c')],
      [role, { content: 'a' }, { content: 'b' }, [{}, 'stop']],
    ],
    [
      'thinking next to the text, as Mistral sends it (LiteLLM issue 16272)',
      [
        delta({ content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'hm' }] }] }),
        delta({
          content: [
            { type: 'thinking', thinking: [{ type: 'text', text: '.' }] },
            { type: 'text', text: 'a' },
          ],
        }),
        stop,
      ],
      [role, { reasoning_content: 'hm' }, { reasoning_content: '.', content: 'a' }, [{}, 'stop']],
    ],
    [
      'reasoning',
      [delta({ reasoning_content: 'r' }), delta({ reasoning: 's' }), stop],
      [role, { reasoning_content: 'r' }, { reasoning_content: 's' }, [{}, 'stop']],
    ],
    ['obfuscation', [delta({ content: 'a', obfuscation: 'xyz' }), stop], [role, { content: 'a' }, [{}, 'stop']]],
    ['text completions', [{ choices: [{ text: 'a' }] }, stop], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'function_call',
      [delta({ function_call: { name: 'f' } }), delta({}, 'function_call')],
      [role, { function_call: { name: 'f' } }, [{}, 'function_call']],
    ],
    ['missing index', [{ choices: [{ delta: { content: 'a' } }] }, stop], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'prompt filter results',
      [{ choices: [], prompt_filter_results: [{}] }, text('a'), stop],
      [role, { content: 'a' }, [{}, 'stop']],
    ],
    ['no choices field', [{ id: 'x' }, text('a'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    ['empty data', ['', text('a'), stop], [role, { content: 'a' }, [{}, 'stop']]],
    [
      'choices beyond n',
      [{ choices: [{ index: 1, delta: { content: 'b' } }, { index: -1 }, { index: 0.5 }] }, text('a'), stop],
      [role, { content: 'a' }, [{}, 'stop']],
    ],
    ['NUL in content', [text('\u0000'), stop], [role, { content: '\u0000' }, [{}, 'stop']]],
  ])('tolerates %s', (_name, events, expected) => {
    expect(deltas(events)).toEqual(expected)
  })

  it.each([
    ['stop', 'stop'],
    ['eos', 'stop'],
    ['end_turn', 'stop'],
    ['STOP', 'stop'],
    ['max_tokens', 'length'],
    ['max_output_tokens', 'length'],
    ['model_length', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['tool_use', 'tool_calls'],
    ['tool_call', 'tool_calls'],
    ['content_filter', 'content_filter'],
    ['SAFETY', 'content_filter'],
    ['RECITATION', 'content_filter'],
    ['PROHIBITED_CONTENT', 'content_filter'],
    ['sensitive', 'content_filter'],
    ['refusal', 'content_filter'],
    ['constructor', 'stop'],
    [7, 'stop'],
  ])('maps finish_reason %s to %s', (sent, reason) => {
    expect(deltas([text('a'), delta({}, sent)]).at(-1)).toEqual([{}, reason])
  })

  it('never copies a prototype key', () => {
    const chunks = normalised([
      '{"choices":[{"delta":{"__proto__":{"evil":1},"constructor":{"evil":1},"content":"a"}}]}',
      stop,
    ])
    const copied = chunks[1]!.choices[0]!.delta
    expect(Object.keys(copied)).toEqual(['content'])
    expect((copied as { evil?: number }).evil).toBeUndefined()
    expect(Object.getPrototypeOf(copied)).toBe(Object.prototype)
  })

  it('gives each of several choices its role and exactly one finish_reason', () => {
    const choice = (index: number, content: string, finish_reason: string | null = null) => ({
      choices: [{ index, delta: { content }, finish_reason }],
    })
    const chunks = normalised(
      [choice(0, 'a'), choice(1, 'b'), choice(0, '', 'stop'), choice(1, '', 'length'), '[DONE]'],
      2,
    )
    for (const index of [0, 1]) {
      const own = chunks.flatMap(chunk => chunk.choices.filter(choice => choice.index === index))
      expect(own.map(choice => choice.delta)).toEqual([role, { content: index === 0 ? 'a' : 'b' }, {}])
      expect(own.map(choice => choice.finish_reason)).toEqual([null, null, index === 0 ? 'stop' : 'length'])
    }
  })

  it.each<[name: string, events: (word: string) => object[]]>([
    [
      'one by one',
      word => [0, 1].map(index => ({ choices: [{ index, delta: { content: word }, finish_reason: null }] })),
    ],
    [
      'each for a while',
      word => [word, word].map(content => ({ choices: [{ index: 1, delta: { content }, finish_reason: null }] })),
    ],
    [
      'side by side',
      word => [
        {
          choices: [
            { index: 0, delta: { content: word }, finish_reason: null },
            { index: 1, delta: { content: '!' }, finish_reason: null },
          ],
        },
      ],
    ],
  ])('separates the texts of several choices, %s', (_name, events) => {
    const all = ['a', 'b', 'c', 'd'].flatMap(events)
    const textOf = (chunks: readonly { choices: readonly { index: number; delta: { content?: unknown } }[] }[]) =>
      [0, 1].map(index =>
        chunks
          .flatMap(({ choices }) => choices)
          .filter(choice => choice.index === index)
          .map(({ delta }) => delta.content ?? '')
          .join(''),
      )
    expect(textOf(normalised([...all, '[DONE]'], 2))).toEqual(textOf(all as Parameters<typeof textOf>[0]))
  })

  it('ends each of several choices at its finish_reason', () => {
    const choice = (index: number, content: string, finish_reason: string | null = null) => ({
      choices: [{ index, delta: { content }, finish_reason }],
    })
    const events = [choice(0, 'a', 'stop'), choice(1, 'b'), choice(0, 'late'), choice(1, '', 'length'), '[DONE]']
    const all = normalised(events, 2).flatMap(chunk => chunk.choices)
    expect(all.map(({ index, delta, finish_reason }) => [index, delta.content, finish_reason])).toEqual([
      [0, '', null],
      [0, 'a', null],
      [0, undefined, 'stop'],
      [1, '', null],
      [1, 'b', null],
      [1, undefined, 'length'],
    ])
  })

  it('keeps logprobs', () => {
    const logprobs = { content: [{ token: 'a', logprob: -0.1 }] }
    const last = { token: '<eos>', logprob: -0.2 }
    const chunks = normalised([
      { choices: [{ index: 0, delta: { content: 'a' }, logprobs }] },
      { choices: [{ index: 0, delta: {}, logprobs: { content: [last] }, finish_reason: 'stop' }] },
    ])
    expect(chunks[1]!.choices[0]).toMatchObject({ logprobs })
    expect(chunks[2]!.choices[0]).toMatchObject({ delta: {}, logprobs: { content: [last] }, finish_reason: null })
    expect(chunks[3]!.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
  })

  it('keeps the logprobs of tokens without text, and drops logprobs without tokens', () => {
    const half = { content: [{ token: 'bytes:\\xf0\\x9f', logprob: -0.1, bytes: [240, 159] }] }
    const rest = { content: [{ token: 'bytes:\\x99\\x82', logprob: -0.2, bytes: [153, 130] }] }
    const chunks = normalised([
      { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, logprobs: { content: [], refusal: null } }] },
      { choices: [{ index: 0, delta: { content: '' }, logprobs: half }] },
      { choices: [{ index: 0, delta: { content: '🙂' }, logprobs: rest }] },
      { choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: 'stop' }] },
    ])
    expect(chunks.map(chunk => chunk.choices)).toEqual([
      [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }],
      [{ index: 0, delta: {}, finish_reason: null, logprobs: half }],
      [{ index: 0, delta: { content: '🙂' }, finish_reason: null, logprobs: rest }],
      [{ index: 0, delta: {}, finish_reason: 'stop' }],
    ])
  })
})

describe('tool calls', () => {
  const calls = (...tool_calls: unknown[]) => delta({ tool_calls })
  const toolDeltas = (events: unknown[]) =>
    normalised(events).flatMap(chunk => chunk.choices.flatMap(choice => choice.delta.tool_calls ?? []))
  const opening = (index: number, id: string, name: string, args = '') => ({
    index,
    id,
    type: 'function',
    function: { name, arguments: args },
  })

  it.each<[name: string, events: unknown[], expected: unknown[]]>([
    [
      'as OpenAI sends them',
      [
        calls(opening(0, 'a', 'f')),
        calls({ index: 0, function: { arguments: '{"x"' } }),
        calls({ index: 0, function: { arguments: ':1}' } }),
      ],
      [
        opening(0, 'a', 'f'),
        { index: 0, function: { arguments: '{"x"' } },
        { index: 0, function: { arguments: ':1}' } },
      ],
    ],
    [
      'without index (Gemini)',
      [
        calls({ id: 'a', function: { name: 'f', arguments: '{}' } }),
        calls({ id: 'b', function: { name: 'g', arguments: '{}' } }),
      ],
      [opening(0, 'a', 'f', '{}'), opening(1, 'b', 'g', '{}')],
    ],
    [
      'without index or id',
      [
        calls({ function: { name: 'f', arguments: '' } }),
        calls({ function: { arguments: '{}' } }),
        calls({ function: { name: 'g', arguments: '{}' } }),
      ],
      [
        opening(0, 'call_00000000abcd_0_0', 'f'),
        { index: 0, function: { arguments: '{}' } },
        opening(1, 'call_00000000abcd_0_1', 'g', '{}'),
      ],
    ],
    [
      'all with index 0',
      [
        calls(opening(0, 'a', 'f', '{}')),
        calls(opening(0, 'b', 'g', '{}')),
        calls({ index: 0, function: { arguments: ' ' } }),
      ],
      [opening(0, 'a', 'f', '{}'), opening(1, 'b', 'g', '{}'), { index: 1, function: { arguments: ' ' } }],
    ],
    [
      'counted from 1',
      [calls(opening(1, 'a', 'f')), calls({ index: 1, function: { arguments: '{}' } })],
      [opening(0, 'a', 'f'), { index: 0, function: { arguments: '{}' } }],
    ],
    [
      'with id and name repeated in each delta',
      [calls(opening(0, 'a', 'f', '{')), calls(opening(0, 'a', 'f', '}'))],
      [opening(0, 'a', 'f', '{'), { index: 0, function: { arguments: '}' } }],
    ],
    [
      'with an id that the answer has already, repeated in each delta',
      [
        calls(opening(0, 'a', 'f', '{}')),
        calls(opening(1, 'a', 'f', '{')),
        calls(opening(1, 'a', 'f', '"x":1')),
        calls({ id: 'a', function: { arguments: '}' } }),
      ],
      [
        opening(0, 'a', 'f', '{}'),
        opening(1, 'call_00000000abcd_0_1', 'f', '{'),
        { index: 1, function: { arguments: '"x":1' } },
        { index: 1, function: { arguments: '}' } },
      ],
    ],
    [
      'with empty id',
      [calls({ index: 0, id: '', function: { name: 'f', arguments: '{}' } })],
      [opening(0, 'call_00000000abcd_0_0', 'f', '{}')],
    ],
    [
      'with an object as arguments',
      [calls({ index: 0, id: 'a', function: { name: 'f', arguments: { x: 1 } } })],
      [opening(0, 'a', 'f', '{"x":1}')],
    ],
    [
      'with a thought signature to echo',
      [calls({ ...opening(0, 'a', 'f', '{}'), extra_content: { google: { thought_signature: 's' } } })],
      [{ ...opening(0, 'a', 'f', '{}'), extra_content: { google: { thought_signature: 's' } } }],
    ],
    [
      'without arguments, for which OpenAI sends `{}` (openai-agents-js issue 664)',
      [
        calls(opening(0, 'a', 'f')),
        calls({ index: 0, function: { arguments: '' } }),
        calls(opening(1, 'b', 'g', '{"x":1}')),
        calls({ index: 2, id: 'c', function: { name: 'h', arguments: null } }),
      ],
      [
        opening(0, 'a', 'f'),
        { index: 0, function: { arguments: '' } },
        opening(1, 'b', 'g', '{"x":1}'),
        opening(2, 'c', 'h'),
        { index: 0, function: { arguments: '{}' } },
        { index: 2, function: { arguments: '{}' } },
      ],
    ],
    [
      'of a custom tool, which has no arguments',
      [calls({ index: 0, id: 'a', type: 'custom', custom: { name: 'grep', input: 'x' } })],
      [{ index: 0, id: 'a', type: 'custom', custom: { name: 'grep', input: 'x' } }],
    ],
    [
      'with the name after the id',
      [calls({ index: 0, id: 'a', type: 'function' }), calls({ index: 0, function: { name: 'f', arguments: '{}' } })],
      [opening(0, 'a', 'f', '{}')],
    ],
    ['that are never named (LM Studio issue 830)', [calls({ id: '', type: 'function' }), calls({ index: 1 })], []],
    ['that are not objects', [calls(null, 3, 'x')], []],
  ])('are normalised %s', (_name, events, expected) => {
    expect(toolDeltas([...events, stop])).toEqual(expected)
  })

  it('end with tool_calls, whatever finish_reason the upstream sends', () => {
    expect(deltas([calls(opening(0, 'a', 'f', '{}')), stop]).at(-1)).toEqual([{}, 'tool_calls'])
    expect(deltas([calls(opening(0, 'a', 'f', '{}')), '[DONE]']).at(-1)).toEqual([{}, 'tool_calls'])
  })

  it('get no arguments if they were cut off', () => {
    expect(toolDeltas([calls(opening(0, 'a', 'f')), delta({}, 'length')])).toEqual([opening(0, 'a', 'f')])
  })

  it('are limited', () => {
    const many = Array.from({ length: 1_000 }, (_, index) => opening(index, `id${index}`, 'f', '{}'))
    expect(toolDeltas([calls(...many), stop])).toHaveLength(128)
  })
})

describe('usage', () => {
  const totals = (events: unknown[], hidesReasoning = false) => {
    const reports = normalised(events, 1, hidesReasoning).flatMap(chunk => (chunk.usage ? [chunk.usage] : []))
    expect(reports.length).toBeLessThanOrEqual(1)
    return reports[0] ? [reports[0].prompt_tokens, reports[0].completion_tokens, reports[0].total_tokens] : null
  }

  it.each<[name: string, events: unknown[], expected: number[] | null]>([
    ['absent', [text('a'), stop], null],
    ['in a separate chunk', [text('a'), stop, { choices: [], usage: usage(3, 1) }], [3, 1, 4]],
    ['on the finish chunk', [text('a'), { ...stop, usage: usage(3, 1) }], [3, 1, 4]],
    [
      'cumulative on every chunk',
      [1, 2, 3].map(n => ({ ...text('a'), usage: usage(3, n) })).concat(stop as never),
      [3, 3, 6],
    ],
    [
      'inside the choice, as Moonshot sends it (pi issue 2017)',
      [text('a'), { choices: [{ ...stop.choices[0], usage: usage(3, 1) }] }],
      [3, 1, 4],
    ],
    ['sent twice', [text('a'), { ...stop, usage: usage(3, 1) }, { choices: [], usage: usage(3, 1) }], [3, 1, 4]],
    [
      'zeros after a real one',
      [text('a'), { ...stop, usage: usage(3, 1) }, { choices: [], usage: usage(0, 0) }],
      [3, 1, 4],
    ],
    ['only zeros', [{ ...text('a'), usage: usage(0, 0) }, stop], null],
    ['null', [{ ...text('a'), usage: null }, stop], null],
    ['negative', [{ ...text('a'), usage: usage(3, -1) }, stop], null],
    ['fractional', [{ ...text('a'), usage: usage(3, 1.5) }, stop], null],
    ['absurd', [{ ...text('a'), usage: usage(3, 1e15) }, stop], null],
    ['text', [{ ...text('a'), usage: usage('3', '1') }, stop], null],
    ['a total that is too small', [{ ...text('a'), usage: { ...usage(3, 1), total_tokens: 2 } }, stop], [3, 1, 4]],
    ['an absurd total', [{ ...text('a'), usage: { ...usage(3, 1), total_tokens: 1e15 } }, stop], [3, 1, 4]],
    ['a total without a prompt', [{ ...text('a'), usage: { ...usage(0, 1), total_tokens: 99 } }, stop], [0, 1, 1]],
    ['a total above its parts', [{ ...text('a'), usage: { ...usage(5, 12), total_tokens: 1_017 } }, stop], [5, 12, 17]],
    [
      'a total above its parts, with reasoning to explain it',
      [
        {
          ...text('a'),
          usage: { ...usage(5, 12), total_tokens: 1_017, completion_tokens_details: { reasoning_tokens: 1_000 } },
        },
        stop,
      ],
      [5, 12, 17],
    ],
    [
      'reasoning inside the completion (OpenAI)',
      [
        {
          ...text('a'),
          usage: { ...usage(3, 8), total_tokens: 11, completion_tokens_details: { reasoning_tokens: 5 } },
        },
        stop,
      ],
      [3, 8, 11],
    ],
    [
      'cached tokens next to the prompt',
      [
        { ...text('a'), usage: { ...usage(3, 1), total_tokens: 24, prompt_tokens_details: { cached_tokens: 20 } } },
        stop,
      ],
      [3, 1, 4],
    ],
  ])('%s', (_name, events, expected) => {
    expect(totals(events)).toEqual(expected)
  })

  it.each<[name: string, events: unknown[], expected: number[]]>([
    [
      'reasoning only in the total (Gemini)',
      [{ ...text('a'), usage: { ...usage(9, 1), total_tokens: 103 } }, stop],
      [9, 94, 103],
    ],
    [
      'reasoning next to the completion (xAI, sub2api issue 5771)',
      [
        {
          ...text('a'),
          usage: {
            ...usage(10_120, 1_499),
            total_tokens: 14_428,
            prompt_tokens_details: { cached_tokens: 128 },
            completion_tokens_details: { reasoning_tokens: 2_809 },
          },
        },
        stop,
      ],
      [10_120, 4_308, 14_428],
    ],
    [
      'cached tokens next to the prompt',
      [
        { ...text('a'), usage: { ...usage(3, 1), total_tokens: 24, prompt_tokens_details: { cached_tokens: 20 } } },
        stop,
      ],
      [3, 1, 4],
    ],
    ['a total that is too small', [{ ...text('a'), usage: { ...usage(3, 1), total_tokens: 2 } }, stop], [3, 1, 4]],
    ['an absurd total', [{ ...text('a'), usage: { ...usage(3, 1), total_tokens: 1e15 } }, stop], [3, 1, 4]],
    ['a total without a prompt', [{ ...text('a'), usage: { ...usage(0, 1), total_tokens: 99 } }, stop], [0, 1, 1]],
  ])('of a server that hides reasoning: %s', (_name, events, expected) => {
    expect(totals(events, true)).toEqual(expected)
  })

  it('keeps token details and drops the cost to the gateway', () => {
    const reported = {
      ...usage(30, 10),
      cost: 0.01,
      prompt_tokens_details: { cached_tokens: 20, cost: 1, image_tokens: null },
    }
    expect(normalised([text('a'), { ...stop, usage: reported }]).at(-1)!.usage).toEqual({
      ...usage(30, 10),
      total_tokens: 40,
      prompt_tokens_details: { cached_tokens: 20 },
    })
  })
})

it('reports hidden tokens as reasoning', () => {
  const seen = normalised([text('a'), { ...stop, usage: { ...usage(9, 1), total_tokens: 103 } }], 1, true).at(-1)!.usage
  expect(seen).toEqual({ ...usage(9, 94), total_tokens: 103, completion_tokens_details: { reasoning_tokens: 93 } })
})

describe('a failing stream', () => {
  it.each<[name: string, events: unknown[], failure: object]>([
    ['closed before any event', [], { outcome: 'server_error' }],
    ['closed before its finish', [text('a')], { outcome: 'server_error' }],
    ['malformed JSON', [text('a'), '{"choices":'], { outcome: 'malformed' }],
    ['an array as event', ['[1]'], { outcome: 'malformed' }],
    ['error object', [text('a'), { error: { message: 'CUDA out of memory' } }], { outcome: 'server_error' }],
    ['error text', [{ error: 'boom' }], { outcome: 'server_error' }],
    ['numeric code', [{ error: { message: 'slow down', code: 429 } }], { outcome: 'busy' }],
    ['vLLM error object', [{ object: 'error', message: 'bad', code: 400 }], { outcome: 'request_rejected' }],
    [
      'context too long',
      [{ error: { message: 'x', code: 'context_length_exceeded' } }],
      { rejection: expect.objectContaining({ code: 'context_length_exceeded' }) },
    ],
    ...['error', 'abort', 'aborted', 'cancelled', 'network_error', 'insufficient_system_resource'].map(
      (reason): [string, unknown[], object] => [
        `finish_reason ${reason}`,
        [text('a'), delta({}, reason), '[DONE]'],
        { outcome: 'server_error' },
      ],
    ),
  ])('is recognised: %s', (_name, events, failure) => {
    expect(failureOf(events)).toMatchObject(failure)
  })

  it.each(['{"message":"bare"}', '{"error":{"message":"wrapped"}}', 'just text', '[{"toString":1}]'])(
    'is recognised by `event: error` with %s',
    data => {
      const normaliser = new ChunkNormaliser(envelope, 1, 131_072, false)
      expect(() => normaliser.push({ event: 'error', data })).toThrow(
        expect.objectContaining({ outcome: 'server_error' }),
      )
    },
  )

  it('is complete once every choice has its finish_reason', () => {
    const normaliser = new ChunkNormaliser(envelope, 1, 131_072, false)
    const push = (event: object) => normaliser.push({ event: '', data: JSON.stringify(event) })
    push(text('a'))
    expect(normaliser.complete).toBe(false)
    push(stop)
    expect(normaliser.complete).toBe(true)
  })

  it('is not complete if content follows a finish_reason', () => {
    const normaliser = new ChunkNormaliser(envelope, 1, 131_072, false)
    const push = (event: object | string) =>
      normaliser.push({ event: '', data: typeof event === 'string' ? event : JSON.stringify(event) })
    push(delta({ content: 'a' }, 'stop'))
    push(delta({ content: 'b' }, 'stop'))
    expect(normaliser.complete).toBe(false)
    push('[DONE]')
    expect(normaliser.complete).toBe(true)
  })
})

it('distinguishes content from other chunks', () => {
  const of = (events: unknown[]) => normalised([...events, stop]).map(hasContent)
  expect(of([text('a')])).toEqual([false, true, false])
  expect(of([delta({ reasoning: 'r' })])).toEqual([false, true, false])
  expect(of([delta({ refusal: 'no' })])).toEqual([false, true, false])
  expect(of([delta({ tool_calls: [{ function: { name: 'f', arguments: '{}' } }] })])).toEqual([false, true, false])
  expect(of([delta({ role: 'assistant', content: '' })])).toEqual([false, false])
})
