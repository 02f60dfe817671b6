import { expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import { canaryFamilies, isCanaryAnswered, makeCanary, ownCanary } from '../../src/market/trust/canary.ts'
import { auditCanaries, needsAnotherCanary } from '../../src/market/trust/canary-audit.ts'

const random = createRandom(11).next

test('no two canaries are alike, and lengths vary', () => {
  const canaries = Array.from({ length: 300 }, () => makeCanary(random))
  const prompts = canaries.map(({ messages }) => JSON.stringify(messages))
  expect(new Set(prompts).size).toBe(300)
  expect(new Set(canaries.map(({ family }) => family)).size).toBe(canaryFamilies.length)
  const lengths = prompts.map(({ length }) => length)
  expect(Math.min(...lengths)).toBeLessThan(250)
  expect(Math.max(...lengths)).toBeGreaterThan(4_000)
})

test.each([
  ['1234', 'There are **1,234** apples.', true],
  ['1234', 'The answer is 1234.', true],
  ['1234', '12345', false],
  ['Tuesday', 'it is tuesday', true],
  ['abc123', 'The code is `abc123`', true],
  ['abc123', '', false],
  ['700', Array.from({ length: 1_000 }, (_, number) => number).join(' '), false],
])('%s in %s: %s', (expected, answer, isAnswered) => {
  expect(isCanaryAnswered({ answers: [expected] }, answer)).toBe(isAnswered)
})

const wellKnown = { asked: 400, failed: 4 }

test('one failed canary is followed by another; two of three fail the audit', () => {
  expect(needsAnotherCanary([true])).toBe(false)
  expect(needsAnotherCanary([false])).toBe(true)
  expect(needsAnotherCanary([false, true])).toBe(true)
  expect(needsAnotherCanary([false, false])).toBe(false)
  expect(auditCanaries([false, true, true], wellKnown).hasPassed).toBe(true)
  expect(auditCanaries([false, false], wellKnown).hasPassed).toBe(false)
  expect(Math.max(...auditCanaries([false, false], wellKnown).eValues)).toBeGreaterThan(20)
})

test('failures of a model that nobody knows, or that all servers fail, are no evidence', () => {
  expect(auditCanaries([false, false], { asked: 5, failed: 0 })).toEqual({ eValues: [1, 1, 1], hasPassed: null })
  const { eValues, hasPassed } = auditCanaries([false, false], { asked: 400, failed: 300 })
  expect(hasPassed).toBeNull()
  for (const eValue of eValues) expect(eValue).toBeCloseTo(1)
})

test('a prompt of the operator is asked with its system prompt', () => {
  const written = {
    prompt: 'Name the author of the report.',
    system: 'Be brief.',
    answers: ['Marta Vogel', 'M. Vogel'],
    maxTokens: 30,
  }
  const canary = ownCanary(written)
  expect(canary.messages).toEqual([
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Name the author of the report.' },
  ])
  expect(isCanaryAnswered(canary, 'It was marta **Vogel**, in spring.')).toBe(true)
  expect(isCanaryAnswered(canary, 'Marta wrote it, not Vogel.')).toBe(false)
})
