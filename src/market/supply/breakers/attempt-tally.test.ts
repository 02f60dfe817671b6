import { expect, test } from 'vitest'
import { AttemptTally, ERROR_CHARACTERS_MAX } from './attempt-tally.ts'

let nowMs = 0
const tally = () => new AttemptTally({ epochMs: () => nowMs })
const failure = (message: string, said: string | null = null) => ({
  message,
  status: 500,
  requestId: 'r',
  customerId: 'c',
  serverText: () => said,
})

test('counts every attempt once, and none that the request or the client ended', () => {
  const attempts = tally()
  for (const outcome of ['connect_failed', 'server_error', 'first_token_timeout', 'malformed', 'empty'] as const)
    attempts.noteFailure('s/m', outcome)
  attempts.noteFailure('s/m', 'credential_rejected')
  attempts.noteFailure('s/m', 'busy')
  for (const outcome of ['request_rejected', 'not_sent', 'cancelled'] as const) attempts.noteFailure('s/m', outcome)
  expect(attempts.report().get('s/m')).toMatchObject({ answered: 0, failed: 6, busy: 1, failedInRow: 6 })
  attempts.noteAnswer('s/m')
  expect(attempts.report().get('s/m')).toMatchObject({ answered: 1, answeredInRow: 1, failedInRow: 0 })
  attempts.noteFailure('s/m', 'server_error')
  expect(attempts.report().get('s/m')).toMatchObject({ failed: 7, answeredInRow: 0, failedInRow: 1 })
})

test('keeps the last error, bounded, at most one a second', () => {
  const attempts = tally()
  const error = () => attempts.report().get('s/m')!.lastError
  attempts.noteFailure('s/m', 'server_error', failure('500', 'out of memory'))
  expect(error()).toEqual({
    atMs: 0,
    outcome: 'server_error',
    status: 500,
    text: '500: out of memory',
    requestId: 'r',
    customerId: 'c',
  })
  nowMs = 999
  attempts.noteFailure('s/m', 'server_error', failure('502'))
  expect(error()?.text).toBe('500: out of memory')
  nowMs = 1_000
  attempts.noteFailure('s/m', 'server_error', failure('x'.repeat(1_000)))
  expect(error()?.text).toHaveLength(ERROR_CHARACTERS_MAX)
  expect(
    attempts
      .report()
      .get('s/m')!
      .errors.map(({ atMs }) => atMs),
  ).toEqual([0, 1_000])
  for (nowMs = 2_000; nowMs <= 7_000; nowMs += 1_000) attempts.noteFailure('s/m', 'server_error')
  expect(
    attempts
      .report()
      .get('s/m')!
      .errors.map(({ atMs }) => atMs),
  ).toEqual([3_000, 4_000, 5_000, 6_000, 7_000])
})

test('cuts no character in half', () => {
  const attempts = tally()
  attempts.noteFailure('s/m', 'server_error', failure(`${'x'.repeat(ERROR_CHARACTERS_MAX - 2)}😀 tail`))
  const { text } = attempts.report().get('s/m')!.lastError!
  expect(text.isWellFormed()).toBe(true)
  expect(text).toHaveLength(ERROR_CHARACTERS_MAX)
})

test('reads one refusal a second, and keeps the texts of failures among refusals', () => {
  const attempts = tally()
  const outcomes = () =>
    attempts
      .report()
      .get('s/m')!
      .errors.map(({ outcome }) => outcome)
  let read = 0
  const refusal = { ...failure('429'), serverText: () => `${++read}` }
  nowMs = 0
  for (let i = 0; i < 1_000; i++) attempts.noteFailure('s/m', 'busy', refusal)
  expect(read).toBe(1)
  attempts.noteFailure('s/m', 'server_error', failure('500'))
  for (nowMs = 1_000; nowMs <= 9_000; nowMs += 1_000) attempts.noteFailure('s/m', 'busy', refusal)
  const { errors, busy } = attempts.report().get('s/m')!
  expect(busy).toBe(1_009)
  expect(errors).toHaveLength(5)
  expect(errors.map(({ outcome }) => outcome)).toContain('server_error')
  for (nowMs = 10_000; nowMs <= 20_000; nowMs += 1_000) attempts.noteFailure('s/m', 'server_error')
  attempts.noteFailure('s/m', 'busy', refusal)
  expect(outcomes()).not.toContain('busy')
  // All of them are reported by now.
  nowMs = 40_000
  attempts.noteFailure('s/m', 'busy', refusal)
  expect(outcomes()).toContain('busy')
})
