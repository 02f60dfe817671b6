import { expect, test } from 'vitest'
import { type Caller, plainAccess } from '../../base/domain/caller.ts'
import { createInvalidRequests } from './invalid-requests.ts'

const callerOf = (keyId: string): Caller => ({
  customerId: 'ada',
  keyId,
  email: 'ada@example.com',
  accountTier: 'free',
  sharesRequests: false,
  access: plainAccess,
  limits: { requestsPerMinute: 3, requestsPerDay: 1_000, dailySpendCapNanos: 0n },
})

test('a key with too many invalid requests is refused until the minute ends, other keys are not', () => {
  let nowMs = Date.UTC(2026, 10, 21, 9, 30, 15)
  const invalid = createInvalidRequests({ clock: { epochMs: () => nowMs, monotonicMs: () => 0 } })
  const [first, second] = [callerOf('first'), callerOf('second')]
  for (let n = 0; n < 3; n++) {
    invalid.refuseExcess(first)
    invalid.note(first)
  }
  expect(() => invalid.refuseExcess(first)).toThrow('This API key has sent 3 invalid requests this minute.')
  invalid.refuseExcess(second)

  nowMs = Date.UTC(2026, 10, 21, 9, 30, 59, 999)
  expect(() => invalid.refuseExcess(first)).toThrow(expect.objectContaining({ retryAfterS: 1 }))
  nowMs += 1
  invalid.refuseExcess(first)
  invalid.note(first)
  invalid.refuseExcess(first)
})
