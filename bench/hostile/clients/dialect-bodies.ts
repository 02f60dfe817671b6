import type { ClientBehaviour, Request } from '../behaviour.ts'
import { fill, named, randomCjk } from './fillers.ts'
import { sends } from './send.ts'

type Attack = readonly [name: string, what: string, ratePerS: number, build: () => Request]

const prose = 'The signalman looks at the river, which is six minutes late; the timetable does not mention it. '
const list = <Item>(count: number, item: (at: number) => Item) => Array.from({ length: count }, (_, at) => item(at))
const schema = (names: number) => ({ type: 'object', properties: named(names) })
const deep = (levels: number) => JSON.parse('{"a":'.repeat(levels) + 1 + '}'.repeat(levels))

/** Customers with a valid key that send expensive bodies to the endpoints other than chat. */
export const dialectClients: readonly ClientBehaviour[] = [
  ...attacks('/v1/responses', responses),
  ...attacks('/v1/messages', messages),
  ...attacks('/v1beta/models/bench:generateContent', gemini),
  ...attacks('/v1/embeddings', embeddings),
  ...attacks('/v1/completions', completions),
  ...attacks('/v1/rerank', rerank),
].map(([name, what, ratePerS, build]) => sends(name, what, { ratePerS }, build))

function attacks(path: string, build: (at: (body: object, path?: string) => Request) => Attack[]): Attack[] {
  return build((body, other = path) => ({ path: other, body }))
}

function responses(at: (body: object, path?: string) => Request): Attack[] {
  const ask = (input: unknown, more: object = {}) => at({ model: 'bench', input, max_output_tokens: 16, ...more })
  const count = (input: unknown, more: object = {}) =>
    at({ model: 'bench', input, ...more }, '/v1/responses/input_tokens')
  const call = (id: string) => ({ type: 'function_call', call_id: id, name: 'f', arguments: '{}' })
  const tools = list(1_000, index => ({
    ...{ type: 'function', name: `f${index}`, description: fill(prose, 500), parameters: schema(8) },
  }))
  return [
    ['responses-items', '8,000 items', 5, () => ask(list(8_000, () => ({ role: 'user', content: 'Hello there' })))],
    [
      'responses-parts',
      '20,000 parts',
      5,
      () => ask(list(10, () => ({ role: 'user', content: list(2_000, () => ({ type: 'input_text', text: 'a' })) }))),
    ],
    ['responses-calls', '8,000 calls with one id and no results', 5, () => ask(list(8_000, () => call('a')))],
    [
      'responses-results',
      '8,000 results without calls',
      5,
      () => ask(list(8_000, index => ({ type: 'function_call_output', call_id: `c${index}`, output: 'a' }))),
    ],
    ['responses-tools', '1,000 tools with schemas', 5, () => ask('Hi', { tools })],
    [
      'responses-namespaces',
      '1,000 tools in namespaces',
      5,
      () =>
        ask('Hi', { tools: list(100, index => ({ type: 'namespace', name: `n${index}`, tools: tools.slice(0, 10) })) }),
    ],
    [
      'responses-allowed-tools',
      '1,000 tools and 10,000 allowed ones',
      5,
      () =>
        ask('Hi', {
          tools: list(1_000, index => ({ type: 'function', name: `f${index}` })),
          tool_choice: { type: 'allowed_tools', tools: list(10_000, () => ({ type: 'function', name: 'g' })) },
        }),
    ],
    ['responses-names', '60,000 different names', 5, () => ask('Hi', { metadata: named(60_000) })],
    [
      'responses-names-in-tools',
      '16,000 different names in schemas',
      5,
      () => ask('Hi', { tools: [{ type: 'function', name: 'f', parameters: schema(16_000) }] }),
    ],
    [
      'responses-deep',
      'schemas of 60 levels',
      5,
      () => ask('Hi', { tools: list(200, index => ({ type: 'function', name: `f${index}`, parameters: deep(58) })) }),
    ],
    ['responses-deep-200k', '200,000 levels', 5, () => ({ ...at({}), body: `{"input":${'['.repeat(200_000)}` })],
    [
      'responses-image',
      'an image of 12 MB in the body',
      2,
      () =>
        ask([
          {
            role: 'user',
            content: [{ type: 'input_image', image_url: `data:image/png;base64,${fill('QUJD', 12_000_000)}` }],
          },
        ]),
    ],
    [
      'responses-seals',
      '8,000 sealed reasoning items',
      5,
      () =>
        ask([
          ...list(8_000, () => ({ type: 'reasoning', summary: [], encrypted_content: 'sy1.text..AAAA' })),
          { role: 'user', content: 'Hi' },
        ]),
    ],
    ['responses-english', '12 MB of English', 1, () => ask(fill(prose, 12_000_000))],
    ['responses-cjk', '1 MB of random CJK', 2, () => ask(randomCjk(350_000))],
    ['responses-count-cjk', 'counts of 1 MB of random CJK', 2, () => count(randomCjk(350_000))],
    ['responses-count-english', 'counts of 12 MB of English', 1, () => count(fill(prose, 12_000_000))],
    ['responses-count-tools', 'counts of 1,000 tools', 2, () => count('Hi', { tools })],
    [
      'responses-count-items',
      'counts of 8,000 items',
      2,
      () => count(list(8_000, () => ({ role: 'user', content: 'Hello there' }))),
    ],
    [
      'responses-stream-tools',
      'streams of the demo model with 1,000 tools, which each answer repeats',
      5,
      () => ask('Hi', { model: 'demo', stream: true, tools }),
    ],
  ]
}

function messages(at: (body: object, path?: string) => Request): Attack[] {
  const ask = (content: unknown, more: object = {}) =>
    at({ model: 'bench', max_tokens: 16, messages: [{ role: 'user', content }], ...more })
  const count = (content: unknown, more: object = {}) =>
    at({ model: 'bench', messages: [{ role: 'user', content }], ...more }, '/v1/messages/count_tokens')
  const turns = (blocks: object[], role = 'assistant') => ({
    messages: [
      ...list(Math.ceil(blocks.length / 2_000), index => ({
        role,
        content: blocks.slice(index * 2_000, (index + 1) * 2_000),
      })),
      { role: 'user', content: 'Hi' },
    ],
  })
  const tools = list(500, index => ({
    ...{ name: `f${index}`, description: fill(prose, 500), input_schema: schema(16) },
  }))
  const cached = { cache_control: { type: 'ephemeral' } }
  return [
    [
      'messages-turns',
      '2,000 messages',
      10,
      () => ask('', { messages: list(2_000, () => ({ role: 'user', content: 'Hello there' })) }),
    ],
    ['messages-blocks', '20,000 blocks', 5, () => ask('', turns(list(20_000, () => ({ type: 'text', text: 'a' }))))],
    [
      'messages-cached-blocks',
      '10,000 cache points',
      5,
      () => ask('', turns(list(10_000, () => ({ type: 'text', text: 'a', ...cached })))),
    ],
    [
      'messages-calls',
      '12,000 calls with one id and no results',
      5,
      () => ask('', turns(list(12_000, () => ({ type: 'tool_use', id: 'a', name: 'f', input: {} })))),
    ],
    [
      'messages-results',
      '14,000 results without calls',
      5,
      () =>
        ask(
          '',
          turns(
            list(14_000, index => ({ type: 'tool_result', tool_use_id: `c${index}`, content: 'a' })),
            'user',
          ),
        ),
    ],
    [
      'messages-seals',
      '10,000 seals that inflate',
      5,
      () => {
        const signature = `sy1.text..${fill('S0xJTEpOSU1Lz8jMys7Jzcsv', 64)}`
        return ask('', turns(list(10_000, () => ({ type: 'thinking', thinking: '', signature }))))
      },
    ],
    ['messages-tools', '500 tools with schemas', 5, () => ask('Hi', { tools })],
    ['messages-names', '60,000 different names', 5, () => ask('Hi', { metadata: named(60_000) })],
    [
      'messages-names-in-input',
      '16,000 different names in the input of a call',
      5,
      () => ask('', turns([{ type: 'tool_use', id: 'a', name: 'f', input: named(16_000) }])),
    ],
    [
      'messages-deep',
      'results in results, 60 levels',
      5,
      () => ask([{ type: 'tool_use', id: 'a', name: 'f', input: deep(55) }]),
    ],
    [
      'messages-image',
      'an image of 12 MB in the body',
      2,
      () =>
        ask([{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: fill('QUJD', 12_000_000) } }]),
    ],
    [
      'messages-documents',
      '8,000 documents of text',
      5,
      () =>
        ask(
          '',
          turns(
            list(8_000, () => ({ type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a' } })),
            'user',
          ),
        ),
    ],
    ['messages-system', '12 MB of instructions', 1, () => ask('Hi', { system: fill(prose, 12_000_000) })],
    ['messages-cjk', '1 MB of random CJK', 2, () => ask(randomCjk(350_000))],
    ['messages-count-cjk', 'counts of 1 MB of random CJK', 2, () => count(randomCjk(350_000))],
    ['messages-count-english', 'counts of 12 MB of English', 1, () => count(fill(prose, 12_000_000))],
    ['messages-count-tools', 'counts of 500 tools', 2, () => count('Hi', { tools })],
    [
      'messages-stream-cjk',
      'streams of the demo model with 140 kB of CJK, which their first event counts',
      5,
      () => ask(randomCjk(47_000), { model: 'demo', stream: true }),
    ],
  ]
}

function gemini(at: (body: object, path?: string) => Request): Attack[] {
  const ask = (contents: object[], more: object = {}) =>
    at({ contents, generationConfig: { maxOutputTokens: 16 }, ...more })
  const count = (text: string) =>
    at({ contents: [{ role: 'user', parts: [{ text }] }] }, '/v1beta/models/bench:countTokens')
  const says = (parts: object[], role = 'user') => ({ role, parts })
  const hi = says([{ text: 'Hi' }])
  const tools = list(1_000, index => ({
    ...{ name: `f${index}`, description: fill(prose, 500), parametersJsonSchema: schema(8) },
  }))
  return [
    ['gemini-contents', '8,000 contents', 5, () => ask(list(8_000, () => says([{ text: 'Hello there' }])))],
    ['gemini-parts', '20,000 parts', 5, () => ask(list(10, () => says(list(2_000, () => ({ text: 'a' })))))],
    [
      'gemini-open-calls',
      '8,000 calls of one name without results',
      5,
      () =>
        ask([
          ...list(8, () =>
            says(
              list(1_000, () => ({ functionCall: { name: 'f', args: {} } })),
              'model',
            ),
          ),
          hi,
        ]),
    ],
    [
      'gemini-results',
      '8,000 results without calls',
      5,
      () => ask(list(8, () => says(list(1_000, () => ({ functionResponse: { name: 'f', response: {} } }))))),
    ],
    [
      'gemini-signed-calls',
      '8,000 calls with seals',
      5,
      () =>
        ask([
          ...list(8, () =>
            says(
              list(1_000, () => ({ functionCall: { name: 'f', args: {} }, thoughtSignature: 'c3kxLnRleHQuLkFBQUE=' })),
              'model',
            ),
          ),
          hi,
        ]),
    ],
    ['gemini-tools', '1,000 functions with schemas', 5, () => ask([hi], { tools: [{ functionDeclarations: tools }] })],
    [
      'gemini-old-schemas',
      'schemas of 16,000 properties in the form of Google',
      5,
      () => ask([hi], { tools: [{ functionDeclarations: [{ name: 'f', parameters: schema(16_000) }] }] }),
    ],
    [
      'gemini-deep',
      'schemas of 58 levels',
      5,
      () =>
        ask([hi], {
          tools: [
            { functionDeclarations: list(200, index => ({ name: `f${index}`, parametersJsonSchema: deep(56) })) },
          ],
        }),
    ],
    ['gemini-names', '60,000 different names', 5, () => ask([hi], { labels: named(60_000) })],
    [
      'gemini-image',
      'an image of 12 MB in the body',
      2,
      () => ask([says([{ inlineData: { mimeType: 'image/png', data: fill('QUJD', 12_000_000) } }])]),
    ],
    ['gemini-english', '12 MB of English', 1, () => ask([says([{ text: fill(prose, 12_000_000) }])])],
    ['gemini-count-cjk', 'counts of 1 MB of random CJK', 2, () => count(randomCjk(350_000))],
  ]
}

function embeddings(at: (body: object) => Request): Attack[] {
  const embed = (input: unknown, more: object = {}) => at({ model: 'demo', input, ...more })
  return [
    ['embeddings-texts', '2,000 texts', 2, () => embed(list(2_000, index => `${index} ${fill(prose, 500)}`))],
    ['embeddings-tokens', '290,000 token ids', 2, () => embed(list(290_000, index => index))],
    [
      'embeddings-token-lists',
      '2,000 lists of 140 token ids',
      2,
      () => embed(list(2_000, () => list(140, index => index))),
    ],
    [
      'embeddings-large',
      '2,000 vectors of 4,096 numbers',
      2,
      () =>
        embed(
          list(2_000, () => 'a'),
          { dimensions: 4_096 },
        ),
    ],
    ['embeddings-cjk', '800 kB of random CJK', 2, () => embed(list(40, () => randomCjk(7_000)))],
    ['embeddings-names', '60,000 different names', 5, () => embed('a', { metadata: named(60_000) })],
  ]
}

function completions(at: (body: object) => Request): Attack[] {
  const complete = (prompt: unknown, more: object = {}) => at({ model: 'demo', prompt, max_tokens: 16, ...more })
  return [
    ['completions-prompts', '128 prompts of 8 kB', 5, () => complete(list(128, () => fill(prose, 8_000)))],
    ['completions-choices', '128 choices', 20, () => complete('a', { n: 16, best_of: 16, logprobs: 5 })],
    ['completions-tokens', '290,000 token ids', 2, () => complete(list(290_000, index => index))],
    ['completions-cjk', '1 MB of random CJK', 2, () => complete(randomCjk(350_000))],
    ['completions-suffix', 'a suffix of 12 MB', 1, () => complete('a', { suffix: fill(prose, 12_000_000) })],
  ]
}

function rerank(at: (body: object) => Request): Attack[] {
  const order = (query: unknown, documents: unknown, more: object = {}) =>
    at({ model: 'demo', query, documents, return_documents: true, ...more })
  return [
    [
      'rerank-documents',
      '1,000 documents of 4 kB',
      2,
      () =>
        order(
          'a ferry',
          list(1_000, () => fill(prose, 4_000)),
        ),
    ],
    [
      'rerank-query',
      'a query of 4 kB for 1,000 documents',
      2,
      () =>
        order(
          fill(prose, 4_000),
          list(1_000, () => 'a'),
        ),
    ],
    [
      'rerank-cjk',
      '900 kB of random CJK',
      2,
      () =>
        order(
          '字',
          list(300, () => randomCjk(1_000)),
        ),
    ],
    [
      'rerank-many',
      '30,000 documents',
      5,
      () =>
        order(
          'a',
          list(30_000, () => 'a'),
        ),
    ],
  ]
}
