import fc from 'fast-check'
import { expect, test } from 'vitest'
import { addRouting } from '../../src/base/domain/add-routing.ts'
import {
  type ChatJob,
  insufficientChoices,
  type RoutingFields,
  routingOf,
  serviceTiers,
} from '../../src/base/domain/chat-job.ts'
import { eligible } from '../../src/request/admit/eligible.ts'
import { jobOf, randomMarket } from '../supply/random-market.ts'

const hosterIds = ['a', 'b', 'c', 'd', 'E', 'F'].map(letter => `00000000-0000-4000-8000-00000000000${letter}`)
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null })

const routingFields: fc.Arbitrary<RoutingFields> = fc.record({
  tier: maybe(fc.constantFrom(...serviceTiers)),
  privacy_mode: maybe(fc.boolean()),
  trusted_only: maybe(fc.boolean()),
  max_latency_ms: maybe(fc.integer({ min: 1, max: 20_000 })),
  fallback_models: maybe(fc.subarray(['m1', 'm2', 'auto'])),
  allow_hosters: maybe(fc.subarray(hosterIds)),
  deny_hosters: maybe(fc.subarray(hosterIds)),
  max_cost_usd: maybe(fc.constantFrom(0.000000001, 0.0001, 0.01, 1)),
  on_insufficient: maybe(fc.constantFrom(...insufficientChoices)),
  dry_run: maybe(fc.boolean()),
})

/** A job with the routing of these fields alone. */
const jobWith = (job: ChatJob, fields: RoutingFields): ChatJob => ({ ...job, ...routingOf(fields) })

test('a job admits an offer exactly if the body, the headers and the key each admit it', () => {
  fc.assert(
    fc.property(
      randomMarket,
      routingFields,
      routingFields,
      routingFields,
      ({ offers, job, health }, body, header, key) => {
        // Whether a failing offer is dropped depends on the other offers.
        const view = { ...health, state: () => 'open' as const }
        const admitted = (each: ChatJob) => new Set(eligible(offers, each, view).eligible.map(({ offerId }) => offerId))
        const merged = addRouting(addRouting(jobWith(job, body), routingOf(header), 'header'), routingOf(key), 'key')
        const [byBody, byHeader, byKey] = [body, header, key].map(fields => admitted(jobWith(job, fields)))
        expect(admitted(merged)).toEqual(byBody!.intersection(byHeader!).intersection(byKey!))
      },
    ),
    { numRuns: 2_000, seed: 1 },
  )
})

test('of a preference, the value nearest to the request holds', () => {
  fc.assert(
    fc.property(routingFields, routingFields, routingFields, (body, header, key) => {
      const merged = addRouting(addRouting(jobWith(jobOf(), body), routingOf(header), 'header'), routingOf(key), 'key')
      expect(merged.constraints.serviceTier).toBe(body.tier ?? header.tier ?? key.tier ?? 'balanced')
      expect(merged.constraints.fallbackModels).toEqual(
        body.fallback_models ?? header.fallback_models ?? key.fallback_models ?? [],
      )
      expect(merged.onInsufficient).toBe(
        body.on_insufficient ?? header.on_insufficient ?? key.on_insufficient ?? 'refuse',
      )
      expect(merged.dryRun).toBe([body, header, key].some(fields => fields.dry_run))
    }),
    { numRuns: 500, seed: 1 },
  )
})

test('the default of a dialect for on_insufficient gives way to headers and keys', () => {
  const agents = { ...jobOf(), ...routingOf({}, 'clamp') }
  expect(addRouting(agents, routingOf({ tier: 'fastest' }), 'header').onInsufficient).toBe('clamp')
  expect(addRouting(agents, routingOf({ on_insufficient: 'refuse' }), 'key').onInsufficient).toBe('refuse')
})

test('names the source of each constraint that a header or the key set or made stricter', () => {
  const [a, b] = hosterIds as [string, string]
  const body = { privacy_mode: true, max_latency_ms: 100, allow_hosters: [a], tier: 'cheapest' } as const
  const header = { privacy_mode: true, max_latency_ms: 200, trusted_only: true, tier: 'fastest' } as const
  const key = { allow_hosters: [a, b], deny_hosters: [b], max_cost_usd: 1, fallback_models: ['m'] }
  const job = addRouting(addRouting(jobWith(jobOf(), body), routingOf(header), 'header'), routingOf(key), 'key')
  expect(job.constraintSources).toEqual({
    trusted_only: 'header',
    deny_hosters: 'key',
    max_cost_usd: 'key',
    fallback_models: 'key',
  })
})
