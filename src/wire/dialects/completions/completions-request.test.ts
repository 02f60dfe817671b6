import { expect, test } from 'vitest'
import { parseCompletionsRequest } from './completions-request.ts'

const parse = (body: object) => parseCompletionsRequest(Buffer.from(JSON.stringify({ model: 'm', ...body })))

test('each prompt is read with the suffix', () => {
  const job = parse({ prompt: ['a'.repeat(800), 'b'], suffix: 'c'.repeat(1_600) })
  expect(job.promptTextBytes).toBe(800 + 1 + 1 + 2 * 1_600)
  expect(job.longestInputTokensMin).toBe(100 + 200)
})

test('a suffix that many prompts make too long is refused before the prompts are joined', () => {
  const prompt = Array.from({ length: 128 }, () => 'a')
  expect(() => parse({ prompt, suffix: 'c'.repeat(4_000_000) })).toThrow(
    expect.objectContaining({ code: 'invalid_value', param: 'suffix' }),
  )
  expect(parse({ prompt, suffix: 'c'.repeat(18_000) }).promptText().length).toBeLessThan(2_400_000)
})
