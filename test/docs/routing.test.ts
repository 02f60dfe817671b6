import { describe, expect, test } from 'vitest'
import { type ChatJob, type RoutingConstraints, serviceTiers } from '../../src/base/domain/chat-job.ts'
import type { AttemptOutcome, ExclusionReason } from '../../src/base/domain/handoff.ts'
import { type Offer, type ProviderKind, providerKinds } from '../../src/base/domain/offer.ts'
import { serverStates } from '../../src/base/domain/server-state.ts'
import { type Clock, systemClock } from '../../src/base/runtime/scheduler.ts'
import { createHealth } from '../../src/market/supply/breakers/health.ts'
import type { HealthEvent } from '../../src/market/supply/breakers/offer-report.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { healthOf, jobOf, offerOf } from '../supply/random-market.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/routing.md')

test('each constraint has a section, and the reverse', () => {
  const fields = {
    serviceTier: 'tier',
    privacyMode: 'privacy_mode',
    trustedOnly: 'trusted_only',
    maxLatencyMs: 'max_latency_ms',
    allowHosters: 'allow_hosters',
    denyHosters: 'deny_hosters',
    fallbackModels: 'fallback_models',
    maxInputPicoPerToken: 'max_input_usd_per_million',
    maxOutputPicoPerToken: 'max_output_usd_per_million',
  } satisfies Record<keyof RoutingConstraints, string>
  const section = page.slice(page.indexOf('\n## The constraints'), page.indexOf('\n## Eligibility'))
  const documented = [...section.matchAll(/^### `(\w+)`$/gm)].map(([, field]) => field)
  expect(documented).toEqual(Object.values(fields))
})

test('the tables list every kind of endpoint and every service tier', () => {
  expect(tableRows(page, 'kind').map(([kind]) => kind)).toEqual([...providerKinds])
  expect(tableRows(page, 'tier').map(([tier]) => tier)).toEqual([...serviceTiers])
})

describe('the reasons of exclusion', () => {
  const documented = tableRows(page, 'reason').map(([reason, appliesTo]) => ({ reason: reason as Reason, appliesTo }))

  test('are all documented', () => {
    expect(documented.map(({ reason }) => reason)).toEqual(Object.keys(remedies))
  })

  test.each(providerKinds)('apply to a %s endpoint in the documented order', kind => {
    let market: Market = {
      offer: offerOf({ ...offerings[kind], contextTokens: 10, maxOutputTokens: 5, features: new Set(['tools']) }),
      job: jobOf({
        maxTokens: 20,
        maxCostNanos: 1n,
        features: new Set(['images']),
        constraints: {
          privacyMode: true,
          trustedOnly: true,
          maxLatencyMs: 100,
          denyHosters: new Set([hosterId]),
          allowHosters: new Set(),
          maxInputPicoPerToken: 1n,
          maxOutputPicoPerToken: 1n,
        },
      }),
      failing: true,
    }
    const met: Reason[] = []
    for (let reason = reasonOf(market); reason !== undefined && met.length < 20; reason = reasonOf(market)) {
      met.push(reason)
      market = remedies[reason](market)
    }
    expect(met).toEqual(
      documented.filter(({ appliesTo }) => appliesTo === 'all' || appliesTo === kind).map(({ reason }) => reason),
    )
  })
})

describe('health is as documented', () => {
  const value = (parameter: string) => {
    const row = tableRows(page, 'parameter').find(([name]) => name === parameter)
    if (!row) throw new Error(`docs/routing.md has no row "${parameter}".`)
    return Number.parseFloat(row[1]!)
  }
  const faultsToEject = value('faults in a row that eject')
  const firstEjectionMs = value('first ejection, plus or minus half') * 1000
  const mostEjectedMs = value('longest ejection, after doubling each time') * 1000
  const trialSuccesses = value('successes that end the trial after an ejection')

  test('consecutive faults and failed connections', () => {
    for (const [outcome, count] of [
      ['server_error', faultsToEject],
      ['connect_failed', value('failed connections in a row that eject')],
    ] as const) {
      const { health, fail } = world()
      fail(outcome, count - 1)
      expect(health.state('o')).toBe('open')
      fail(outcome)
      expect(health.ejectedForMs('o')).toBe(firstEjectionMs)
    }
  })

  test('the share of failed requests', () => {
    const requests = value('fewest requests for that rate')
    const part = value('failure rate within 60 s that ejects') / 100
    const { health, fail, succeed } = world()
    // Alternate successes and faults, so that consecutive faults do not eject before the rate does.
    for (let sent = 0; sent < requests - 1; sent++) sent % (1 / part) === 0 ? succeed() : fail('server_error')
    expect(health.state('o')).toBe('open')
    fail('server_error')
    expect(health.state('o')).toBe('ejected')
  })

  test('ejections double up to the maximum, and a trial ends with successes', () => {
    const { health, fail, succeed, wait } = world()
    fail('server_error', faultsToEject)
    for (let expectedMs = firstEjectionMs; expectedMs < mostEjectedMs; expectedMs *= 2) {
      expect(health.ejectedForMs('o')).toBe(expectedMs)
      wait(expectedMs)
      expect(health.state('o')).toBe('probing')
      fail('server_error')
    }
    expect(health.ejectedForMs('o')).toBe(mostEjectedMs)
    wait(mostEjectedMs)
    for (let success = 1; success < trialSuccesses; success++) {
      succeed()
      expect(health.state('o')).toBe('probing')
    }
    succeed()
    expect(health.state('o')).toBe('open')
  })

  test('good health forgives earlier ejections', () => {
    const { health, fail, succeed, wait } = world()
    fail('server_error', faultsToEject)
    wait(firstEjectionMs)
    for (let success = 0; success < trialSuccesses; success++) succeed()
    wait(value('healthy time that cancels one earlier ejection') * 1000)
    fail('server_error', faultsToEject)
    expect(health.ejectedForMs('o')).toBe(firstEjectionMs)
  })

  test('a refused key and a busy server', () => {
    const { health, fail } = world()
    fail('credential_rejected')
    expect(health.ejectedForMs('o')).toBe(value('ejection for a refused key') * 1000)

    const busy = world()
    const firstPauseMs = value('first pause without Retry-After, doubled each time') * 1000
    busy.fail('busy')
    expect(busy.health.ejectedForMs('o')).toBe(firstPauseMs)
    busy.wait(firstPauseMs)
    busy.fail('busy')
    expect(busy.health.ejectedForMs('o')).toBe(2 * firstPauseMs)
    busy.health.recordFailure('o', 'busy', 86_400)
    expect(busy.health.ejectedForMs('o')).toBe(value('longest pause, even if the server asks for more') * 1000)
  })

  test('each outcome of an attempt counts as the table says', () => {
    const outcomes = {
      connect_failed: 'fault',
      server_error: 'fault',
      first_token_timeout: 'fault',
      malformed: 'fault',
      empty: 'fault',
      busy: 'a pause',
      credential_rejected: 'our fault',
      request_rejected: 'nothing',
      not_sent: 'nothing',
      cancelled: 'nothing',
    } satisfies Record<Failure, string>
    const documented = tableRows(page, 'outcome').map(([outcome, , , countsAs]) => [outcome, countsAs])
    expect(documented).toEqual(Object.entries(outcomes))

    for (const [outcome, countsAs] of Object.entries(outcomes) as [Failure, string][]) {
      const { health, fail, events } = world()
      fail(outcome)
      const once = health.state('o')
      fail(outcome, faultsToEject - 1)
      const meaning =
        once === 'open'
          ? health.state('o') === 'open'
            ? 'nothing'
            : 'fault'
          : events.some(({ event }) => event === 'credential_rejected')
            ? 'our fault'
            : 'a pause'
      expect([outcome, meaning]).toEqual([outcome, countsAs])
    }
  })
})

type Reason = ExclusionReason
type Failure = Exclude<AttemptOutcome, 'answered'>

interface Market {
  readonly offer: Offer
  readonly job: ChatJob
  readonly failing: boolean
}

test('the table of what is shown has every state of a server', () => {
  expect(tableRows(page, 'state shown').map(([state]) => state)).toEqual(expect.arrayContaining([...serverStates]))
  expect(tableRows(page, 'state shown')).toHaveLength(serverStates.length)
})

const hosterId = '00000000-0000-4000-8000-00000000000a'

const offerings: Record<ProviderKind, Parameters<typeof offerOf>[0]> = {
  local: { kind: 'local' },
  hoster: { kind: 'hoster', hosterId, trustScore: 0 },
  cloud: { kind: 'cloud' },
}

/** Changes that remove a reason. The type ensures that all reasons are listed here, and so on the page. */
const remedies: Record<Reason, (market: Market) => Market> = {
  context_too_small: withOffer({ contextTokens: 100_000 }),
  feature_missing: withOffer({ features: new Set(['images']) }),
  max_input_usd_per_million: withConstraint({ maxInputPicoPerToken: 1_000_000_000n }),
  max_output_usd_per_million: withConstraint({ maxOutputPicoPerToken: 1_000_000_000n }),
  privacy_mode: withConstraint({ privacyMode: false }),
  trusted_only: withConstraint({ trustedOnly: false }),
  max_latency_ms: withConstraint({ maxLatencyMs: null }),
  deny_hosters: withConstraint({ denyHosters: new Set() }),
  allow_hosters: withConstraint({ allowHosters: null }),
  max_cost_usd: market => ({ ...market, job: { ...market.job, maxCostNanos: null } }),
  budget_spent: ({ offer: { isBudgetSpent: _, ...offer }, ...market }) => ({ ...market, offer }),
  endpoint_ejected: market => ({ ...market, failing: false }),
}

function withOffer(change: Partial<Offer>) {
  return (market: Market): Market => ({ ...market, offer: { ...market.offer, ...change } })
}

function withConstraint(change: Partial<RoutingConstraints>) {
  return (market: Market): Market => ({
    ...market,
    job: { ...market.job, constraints: { ...market.job.constraints, ...change } },
  })
}

/** Returns why the offer is excluded. A healthy twin allows the offer to be dropped when it is failing. */
function reasonOf({ offer, job, failing }: Market): Reason | undefined {
  const twin = { ...offer, offerId: 'twin' }
  const health = healthOf(failing ? { [offer.offerId]: { state: 'ejected' } } : {})
  return eligible([offer, twin], job, health).excluded.find(({ offerId }) => offerId === offer.offerId)?.reason
}

/** Creates the health of one offer, with a manual clock and without jitter. */
function world() {
  let nowMs = 1_000_000
  const events: HealthEvent[] = []
  const clock: Clock = { ...systemClock, monotonicMs: () => nowMs }
  const health = createHealth({ clock, random: () => 0.5, onEvent: event => events.push(event) })
  return {
    health,
    events,
    fail(outcome: Failure, times = 1) {
      for (let time = 0; time < times; time++) health.recordFailure('o', outcome)
    },
    succeed: () => health.recordSuccess('o', { firstTokenMs: 10 }),
    wait(ms: number) {
      nowMs += ms
    },
  }
}
