import { expect, test } from 'vitest'
import type { Attempt } from './handoff.ts'
import { readAttempts, storeAttempts } from './stored-attempts.ts'

const server = { endpointId: 'gpu', provider: 'local', modelId: 'org/model' } as const
const usual: Attempt = {
  offerId: 'gpu/org/model',
  endpointId: 'gpu',
  provider: 'local',
  outcome: 'answered',
  elapsedMs: 212,
}

test('the usual attempt is stored as a number', () => {
  expect(storeAttempts([usual], server)).toBe(212)
  expect(readAttempts(212, server)).toEqual([usual])
})

test.each<[string, readonly Attempt[]]>([
  ['none', []],
  ['several', [{ ...usual, outcome: 'busy' }, usual]],
  ['one that failed', [{ ...usual, outcome: 'server_error' }]],
  ['one at another endpoint', [{ ...usual, endpointId: 'cpu', offerId: 'cpu/org/model' }]],
  ['one of another model', [{ ...usual, offerId: 'gpu/model' }]],
  ['one of another kind of server', [{ ...usual, provider: 'cloud' }]],
])('other attempts are stored as they are: %s', (_which, attempts) => {
  expect(storeAttempts(attempts, server)).toBe(attempts)
  expect(readAttempts(attempts, server)).toBe(attempts)
})

test('a request without a server has no usual attempt', () => {
  const none = { endpointId: null, provider: 'none', modelId: 'm' } as const
  expect(storeAttempts([usual], none)).toEqual([usual])
})
