import { expect, test } from 'vitest'
import { type HealthFacts, serverStateOf } from './server-health.ts'

const NOW_MS = 1_000_000_000
const HOUR_MS = 3_600_000
const facts = (more: Partial<HealthFacts> & { counts?: [answered: number, failed: number, busy?: number] }) => {
  const { counts: [answered, failed, busy = 0] = [0, 0], ...rest } = more
  const recent = { answered, failed, busy }
  return {
    breakers: [],
    customersKeptAway: 0,
    recent,
    answeredInRow: 0,
    failedInRow: 0,
    attemptedAtMs: NOW_MS,
    ...rest,
  }
}

test.each([
  ['never used', { attemptedAtMs: null }, 'unknown'],
  ['not used for a day', { attemptedAtMs: NOW_MS - 25 * HOUR_MS, failedInRow: 9 }, 'unknown'],
  ['34 of 34 failed', { counts: [0, 34], failedInRow: 34 }, 'failing'],
  ['the last five failed, among many', { counts: [10_000, 5], failedInRow: 5 }, 'failing'],
  ['failed an hour ago, and nobody has tried since', { attemptedAtMs: NOW_MS - HOUR_MS, failedInRow: 34 }, 'failing'],
  ['half failed', { counts: [3, 3], failedInRow: 1 }, 'failing'],
  ['recovered after three answers', { counts: [3, 34], answeredInRow: 3 }, 'degraded'],
  ['two answers are not enough', { counts: [2, 34], answeredInRow: 2 }, 'failing'],
  ['one failed', { counts: [0, 1], failedInRow: 1 }, 'degraded'],
  ['one of ten failed', { counts: [9, 1], answeredInRow: 4 }, 'degraded'],
  ['one of eleven failed', { counts: [10, 1], answeredInRow: 4 }, 'working'],
  ['one failed an hour ago', { attemptedAtMs: NOW_MS - HOUR_MS, failedInRow: 1 }, 'degraded'],
  ['refuses half as busy', { counts: [5, 0, 5], answeredInRow: 5 }, 'degraded'],
  ['refuses everything as busy', { counts: [0, 0, 34] }, 'degraded'],
  ['fails for one of many customers', { counts: [1_000, 5], answeredInRow: 9, customersKeptAway: 1 }, 'degraded'],
  ['on trial after an ejection', { breakers: ['open', 'probing'], counts: [100, 0], answeredInRow: 2 }, 'degraded'],
  ['ejected at one node of two', { breakers: ['open', 'ejected'], counts: [100, 0] }, 'ejected'],
  ['ejected for a credential that is a day old', { breakers: ['ejected'], attemptedAtMs: null }, 'ejected'],
  ['all answered', { breakers: ['open'], counts: [1, 0], answeredInRow: 1 }, 'working'],
  ['answered hours ago', { attemptedAtMs: NOW_MS - 5 * HOUR_MS, answeredInRow: 1 }, 'working'],
] satisfies [string, Parameters<typeof facts>[0], string][])('a server that is %s', (_, more, state) => {
  expect(serverStateOf(facts(more), NOW_MS)).toBe(state)
})
