import { expect, test } from 'vitest'
import { attemptLimits } from './attempt.ts'

const timeouts = { connectMs: 3_000, firstTokenMs: 60_000, tokenMs: 50, idleMs: 30_000, totalMs: 600_000 }
const whole = { stream: false, maxTokens: 1_000 }
const stream = { stream: true, maxTokens: 1_000 }

test.each([
  ['the time to the first byte of a whole answer grows with max_tokens', whole, 600_000, false, 110_000, 600_000],
  ['with another offer, a whole answer may use half of the time', whole, 600_000, true, 110_000, 300_000],
  ['its first byte comes within that half too', { ...whole, maxTokens: 8_000 }, 600_000, true, 300_000, 300_000],
  ['the first byte comes within the total limit', { ...whole, maxTokens: 1e6 }, 900_000, false, 600_000, 600_000],
  ['a stream has the limit of the first token, however long it is', stream, 600_000, true, 60_000, 600_000],
  ['with another offer, the first token of a stream may use half of the time', stream, 100_000, true, 50_000, 100_000],
  ['the last offer may use all the remaining time', stream, 40_000, false, 40_000, 40_000],
] as const)('%s', (_name, request, remainingMs, hasNext, firstByteMs, totalMs) => {
  expect(attemptLimits(timeouts, request, remainingMs, hasNext)).toEqual({
    connectMs: 3_000,
    firstByteMs,
    idleMs: 30_000,
    totalMs,
  })
})
