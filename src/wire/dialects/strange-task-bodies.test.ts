import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { parseCompletionsRequest } from './completions/completions-request.ts'
import { parseEmbeddingsRequest } from './embeddings/embeddings-request.ts'
import { parseRerankRequest } from './rerank/rerank-request.ts'

const strange = fc.oneof(
  fc.constantFrom(
    null,
    true,
    0,
    -1,
    1.5,
    1e300,
    '',
    'text',
    '\ud800',
    [],
    {},
    [''],
    ['a', 'b'],
    [1, 2],
    [[1], [2]],
    [[]],
  ),
  fc.jsonValue({ maxDepth: 3 }),
)
const fields = [
  'model',
  'prompt',
  'suffix',
  'input',
  'query',
  'documents',
  'encoding_format',
  'dimensions',
  'n',
  'echo',
]
const more = [
  'best_of',
  'top_n',
  'logprobs',
  'stop',
  'max_tokens',
  'stream',
  'stream_options',
  'fallback_models',
  'tier',
]
const bodies = fc.dictionary(fc.constantFrom(...fields, ...more, 'allow_hosters', 'max_cost_usd', '__proto__'), strange)

const right = { model: 'm', prompt: 'p', input: 'i', query: 'q', documents: ['d'] }

describe.each<[string, (body: Buffer) => ChatJob]>([
  ['completions', parseCompletionsRequest],
  ['embeddings', parseEmbeddingsRequest],
  ['rerank', parseRerankRequest],
])('%s', (_name, parse) => {
  test('any body is parsed into consistent bounds, or refused with 400 and the field at fault', () => {
    fc.assert(
      fc.property(bodies, fc.boolean(), (body, isPartlyRight) => {
        const text = JSON.stringify(isPartlyRight ? { ...right, ...body } : body)
        try {
          const job = parse(Buffer.from(text))
          expect(job.inputTokensBound).toBeGreaterThanOrEqual(job.promptTextBytes + job.mediaTokensBound)
          expect(Buffer.byteLength(job.promptText())).toBeLessThanOrEqual(job.promptTextBytes + job.messageCount)
          expect(job.longestInputTokensMin).toBeLessThanOrEqual(job.inputTokensBound)
          expect(job.choices).toBeLessThanOrEqual(128)
          expect(() => JSON.stringify(job.forward)).not.toThrow()
        } catch (error) {
          expect(error).toBeInstanceOf(ApiError)
          expect((error as ApiError).row.status).toBe(400)
        }
      }),
      { numRuns: 500 },
    )
  })
})
