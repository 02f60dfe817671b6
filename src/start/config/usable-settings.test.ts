import { expect, test } from 'vitest'
import { usableSettings } from './usable-settings.ts'

const GOLD = { requests_per_minute: 7, requests_per_day: 70, daily_spend_cap_usd: '7.50' }

test('settings that fit are all used', () => {
  const { settings, unused, problems } = usableSettings(
    { account_tiers: { gold: GOLD }, signup: { tier: 'gold', credit_usd: '2' } },
    { written: {} },
  )
  expect([settings.signup, unused, problems]).toEqual([{ tier: 'gold', creditNanos: 2_000_000_000n }, [], []])
})

test('a tier that the file lacks takes no other setting with it, and nobody gets the default credit', () => {
  const managed = {
    account_tiers: { free: { requests_per_minute: 44 }, silver: GOLD },
    signup: { tier: 'gold' },
    routing: { attempts_max: 2 },
  }
  const { settings, unused, problems } = usableSettings(managed, { written: {} })
  expect([unused, problems.length]).toEqual([['signup.tier'], 1])
  expect(settings.signup).toEqual({ tier: 'free', creditNanos: 0n })
  expect(settings.routing.attemptsMax).toBe(2)
  expect(settings.accountTiers).toMatchObject({ free: { requestsPerMinute: 44 }, silver: { requestsPerMinute: 7 } })
})

test('keys that only fit together are used together, whatever their order', () => {
  const managed = { payments: { min_usd: '6000', max_usd: '9000' }, routing: { attempts_max: 0 } }
  const { settings, unused } = usableSettings(managed, { written: {} })
  expect(unused).toEqual(['routing.attempts_max'])
  expect(settings.payments).toEqual({ topUpMinNanos: 6_000_000_000_000n, topUpMaxNanos: 9_000_000_000_000n })
  expect(settings.signup.creditNanos).toBe(5_000_000_000n)
})

test('of a tier with a wrong limit the others are used', () => {
  const managed = { account_tiers: { free: { requests_per_minute: 0, requests_per_day: 55 } } }
  const { settings, unused } = usableSettings(managed, { written: {} })
  expect(unused).toEqual(['account_tiers.free.requests_per_minute'])
  expect(settings.accountTiers.free).toMatchObject({ requestsPerMinute: 20, requestsPerDay: 55 })
})
