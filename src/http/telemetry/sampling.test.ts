import { expect, test } from 'vitest'
import { Sampling } from './sampling.ts'
import { readTraceParent, traceLines } from './trace-parent.ts'

const key = Buffer.from('key')
const spanId = '00f067aa0ba902b7'
const parentOf = (traceId: string, isSampled = true) => ({ traceId, spanId, isSampled, state: null })
const traceIdOf = (n: number) => n.toString(16).padStart(32, '0')

function sampling(ratio: number, followsParent = true) {
  let draw = 0
  return new Sampling({ ratio, followsParent, key, random: () => (draw++ % 100) / 100 })
}

test('requests without a trace are recorded by the ratio', () => {
  const records = sampling(0.1)
  const recorded = Array.from({ length: 1_000 }, () => records.records(null)).filter(Boolean)
  expect(recorded).toHaveLength(100)
})

test('a trace is recorded whole or not at all', () => {
  const records = sampling(0.25)
  const decisions = Array.from({ length: 200 }, (_, n) => {
    const parent = parentOf(traceIdOf(n + 1))
    return [records.records(parent), records.records(parent)]
  })
  expect(decisions.every(([first, second]) => first === second)).toBe(true)
  const recorded = decisions.filter(([first]) => first)
  expect(recorded.length).toBeGreaterThan(20)
  expect(recorded.length).toBeLessThan(90)
})

test('a client that repeats a recorded trace cannot record more than the ratio', () => {
  const records = sampling(0.1)
  const fresh = sampling(0.1)
  const chosen = Array.from({ length: 100 }, (_, n) => traceIdOf(n + 1)).find(id => fresh.records(parentOf(id)))
  const recorded = Array.from({ length: 10_000 }, () => records.records(parentOf(chosen ?? ''))).filter(Boolean)
  // The ratio, and the allowance at the start.
  expect(recorded.length).toBeLessThan(1_000 + 120)
})

test('a trace that its client does not record is recorded only if parents are not followed', () => {
  expect(sampling(1).records(parentOf(traceIdOf(1), false))).toBe(false)
  expect(sampling(1, false).records(parentOf(traceIdOf(1), false))).toBe(true)
  expect(sampling(0).records(parentOf(traceIdOf(1)))).toBe(false)
})

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'

test.each([
  ['no header', [], null],
  [
    'a trace that is recorded',
    ['TraceParent', `00-${traceId}-${spanId}-01`],
    { traceId, spanId, isSampled: true, state: null },
  ],
  ['other flags', ['traceparent', `00-${traceId}-${spanId}-02`], { traceId, spanId, isSampled: false, state: null }],
  [
    'a state in two lines',
    ['traceparent', `00-${traceId}-${spanId}-01`, 'tracestate', 'a=1', 'tracestate', 'b=2'],
    { traceId, spanId, isSampled: true, state: 'a=1,b=2' },
  ],
  [
    'a state that is too long',
    ['traceparent', `00-${traceId}-${spanId}-01`, 'tracestate', `a=${'1'.repeat(512)}`],
    { traceId, spanId, isSampled: true, state: null },
  ],
  [
    'a later version',
    ['traceparent', `01-${traceId}-${spanId}-01-more`],
    { traceId, spanId, isSampled: true, state: null },
  ],
  ['more than version 00 has', ['traceparent', `00-${traceId}-${spanId}-01-more`], null],
  ['the forbidden version', ['traceparent', `ff-${traceId}-${spanId}-01`], null],
  ['a trace of zeros', ['traceparent', `00-${'0'.repeat(32)}-${spanId}-01`], null],
  ['a span of zeros', ['traceparent', `00-${traceId}-${'0'.repeat(16)}-01`], null],
  ['upper case', ['traceparent', `00-${traceId.toUpperCase()}-${spanId}-01`], null],
  ['two traces', ['traceparent', `00-${traceId}-${spanId}-01`, 'traceparent', `00-${traceId}-${spanId}-01`], null],
  ['other text', ['traceparent', 'x'.repeat(10_000)], null],
] as const)('reads %s', (_, rawHeaders, expected) => {
  expect(readTraceParent(rawHeaders)).toEqual(expected)
})

test('passes a trace on', () => {
  expect(traceLines(traceId, spanId, true, 'a=1')).toEqual([
    `traceparent: 00-${traceId}-${spanId}-01`,
    'tracestate: a=1',
  ])
  expect(traceLines(traceId, spanId, false, null)).toEqual([`traceparent: 00-${traceId}-${spanId}-00`])
})
