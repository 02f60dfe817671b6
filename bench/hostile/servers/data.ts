import type { Feature } from '../../../src/base/domain/chat-job.ts'
import type { Request, ServerBehaviour } from '../behaviour.ts'
import { saysWhole } from './answer.ts'

const INPUTS = 512
const list = <Item>(count: number, item: (at: number) => Item) => Array.from({ length: count }, (_, at) => item(at))
const usage = { prompt_tokens: 5, total_tokens: 5 }
const vectors = (embedding: unknown) =>
  JSON.stringify({ object: 'list', data: list(INPUTS, index => ({ index, embedding })), usage })
const numbers = (count: number) => list(count, at => Math.sin(at))

/** Servers that send hostile data to the customers of embeddings, rerank and completions. */
export const dataBehaviours: readonly ServerBehaviour[] = [
  ...serving('embeddings', '/v1/embeddings', model => ({ model, input: list(INPUTS, () => 'a') }), [
    ['floats', '512 vectors of 3,000 numbers', () => vectors(numbers(3_000))],
    [
      'base64',
      '512 vectors of 8,000 numbers in base64',
      () => vectors(Buffer.from(new Float32Array(numbers(8_000)).buffer).toString('base64')),
    ],
    ['digits', '512 vectors of 1,000 numbers with 30 digits', () => vectors(['@']).replaceAll('"@"', digits)],
    ['nested', '512 vectors of 1,000 lists', () => vectors(list(1_000, () => []))],
    ['too-many', '100,000 vectors', () => JSON.stringify({ data: list(100_000, () => ({ embedding: [1] })), usage })],
  ]),
  ...serving('rerank', '/v1/rerank', model => ({ model, query: 'a', documents: list(INPUTS, () => 'b') }), [
    [
      'results',
      '512 results with documents of 10 kB',
      () =>
        JSON.stringify({
          results: list(INPUTS, index => ({ index, relevance_score: 1, document: { text: 'x'.repeat(10_000) } })),
        }),
    ],
    [
      'too-many-results',
      '20,000 results',
      () => JSON.stringify({ results: list(20_000, index => ({ index, relevance_score: 1 })) }),
    ],
  ]),
  ...serving('completions', '/v1/completions', model => ({ model, prompt: 'a', max_tokens: 100_000 }), [
    [
      'text',
      'a text of 900 kB',
      () => JSON.stringify({ choices: [{ index: 0, text: 'word '.repeat(180_000), finish_reason: 'stop' }], usage }),
    ],
    [
      'choices',
      '3,000 choices',
      () => JSON.stringify({ choices: list(3_000, index => ({ index, text: 'a', finish_reason: 'stop' })), usage }),
    ],
  ]),
]

const digits = list(1_000, at => `0.1234567890123456789012345678${at}`).join(',')

type Answer = readonly [name: string, what: string, body: () => string]

function serving(
  feature: Feature,
  path: string,
  body: (model: string) => NonNullable<Request['body']>,
  answers: readonly Answer[],
): ServerBehaviour[] {
  const request = (model: string) => ({ path, body: body(model) })
  return answers.map(([name, what, answer]) => ({
    ...saysWhole(`${feature}-${name}`, what, answer, { ratePerS: 5, inFlightMax: 4, request }),
    features: [feature],
  }))
}
