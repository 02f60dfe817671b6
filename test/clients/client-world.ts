import { expect } from 'vitest'
import { countTokens } from '../../src/dialects/tokens/count-tokens.ts'
import { costNanos } from '../../src/domain/money.ts'
import { startTestApp, type TestApp, type TestAppOptions, type TestCustomer, testOffer } from '../harness/app.ts'
import { type ScriptedUpstream, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'

/**
 * What a client meets: the whole gateway on a socket with three models. `test-model` answers as scripted, `cloud-model` is the
 * same server offered as a cloud, and every server of `broken-model` fails.
 */
export interface ClientWorld {
  readonly gateway: TestApp
  readonly upstream: ScriptedUpstream
  readonly brokenUpstream: ScriptedUpstream
  /** What clients are configured with. */
  readonly baseUrl: string
  close(): Promise<void>
}

export async function startClientWorld(options: TestAppOptions = {}): Promise<ClientWorld> {
  const upstream = await startScriptedUpstream()
  const brokenUpstream = await startScriptedUpstream()
  brokenUpstream.always(status(500, { error: { message: 'out of memory' } }))
  const offer = testOffer(upstream.baseUrl)
  const cloud = testOffer(upstream.baseUrl, { modelId: 'cloud-model' })
  const gateway = await startTestApp({
    offers: [
      offer,
      { ...cloud, endpoint: { ...cloud.endpoint, endpointId: 'some-cloud', kind: 'cloud' } },
      testOffer(brokenUpstream.baseUrl, { modelId: 'broken-model' }),
    ],
    ...options,
  })
  return {
    gateway,
    upstream,
    brokenUpstream,
    baseUrl: `${gateway.url}/v1`,
    async close() {
      await gateway.close()
      await upstream.close()
      await brokenUpstream.close()
    },
  }
}

const someHoster = '3f2c8a52-6b1e-4c59-9d0e-2f1d6a7b8c90'

/** Every field of the gateway's own. With them `cloud-model` may not be served by its cloud, so `test-model` answers. */
export const constraints = {
  tier: 'cheapest',
  privacy_mode: true,
  trusted_only: true,
  max_latency_ms: 60_000,
  fallback_models: ['test-model'],
  allow_hosters: [someHoster],
  deny_hosters: [someHoster],
} as const

/** The same fields with values that are refused, each by name: whoever gets that refusal has reached us with that field. */
export const wrongConstraints: Record<keyof typeof constraints, unknown> = {
  tier: 'fast',
  privacy_mode: 'yes',
  trusted_only: 1,
  max_latency_ms: 0,
  fallback_models: 'test-model',
  allow_hosters: ['hoster-1'],
  deny_hosters: ['hoster-1'],
}

/** The constraints must have moved the request off the cloud, and gone no further than the gateway. */
export function expectConstraintsFollowed(world: ClientWorld, servedModel: string | undefined): void {
  expect(servedModel).toBe('test-model')
  const { body } = world.upstream.requests.at(-1)!
  expect(body.model).toBe('upstream-test-model')
  for (const field of Object.keys(constraints)) expect(body).not.toHaveProperty(field)
}

/**
 * The client left after `text` was generated: the upstream heard of it, and exactly that text is billed.
 * The charge is committed after the client is gone, so it is waited for.
 */
export async function expectLeftAndBilled(world: ClientWorld, customer: TestCustomer, text: string): Promise<void> {
  expect(await world.upstream.requests.at(-1)!.aborted).toBe(true)
  const [row] = await world.gateway.settled(customer, 1)
  expect(row).toMatchObject({ outcome: 'client_gone', usage_source: 'gateway', output_tokens: countTokens(text) })
  const { price } = testOffer(world.upstream.baseUrl)
  expect(row!.cost_nanos).toBe(costNanos(price, row!.input_tokens, row!.output_tokens))
  expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n - row!.cost_nanos)
}

/** A fetch that counts: SDKs retry by themselves, and how often is what they were told or chose. */
export function countingFetch(): { fetch: typeof fetch; readonly calls: number } {
  const counter = {
    calls: 0,
    fetch: ((input, init) => {
      counter.calls += 1
      return fetch(input, init)
    }) as typeof fetch,
  }
  return counter
}

/** All of the customer's requests of a window are used up; the minute ends between one and two minutes from now. */
export async function useUp(world: ClientWorld, customer: TestCustomer, window: 'minute' | 'day'): Promise<void> {
  await world.gateway.database.pool.query(
    window === 'minute'
      ? `UPDATE balance SET minute = date_trunc('minute', now(), 'UTC') + interval '1 minute', minute_requests = 300 WHERE customer_id = $1`
      : `UPDATE balance SET day = (now() AT TIME ZONE 'UTC')::date + 1, day_requests = 50000 WHERE customer_id = $1`,
    [customer.customerId],
  )
}

/** Ahead of PostgreSQL's clock by so much that every window seems to end at once: Retry-After is 1, whenever a test runs. */
export const hastyClock = { epochMs: () => Date.now() + 3_600_000, monotonicMs: () => performance.now() }

export const weatherTool = {
  name: 'get_weather',
  description: 'The weather of a place',
  parameters: {
    type: 'object' as const,
    properties: { place: { type: 'string' as const } },
    required: ['place'],
    additionalProperties: false,
  },
}
