import { expect } from 'vitest'
import { costNanos } from '../../src/base/domain/money.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, type TestApp, type TestAppOptions, type TestCustomer, testOffer } from '../harness/app.ts'
import { type ScriptedUpstream, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'
import { useResource } from '../harness/use-resource.ts'

/**
 * A whole gateway on a socket with three models. `test-model` answers as scripted, `cloud-model` is the same server
 * offered as a cloud, and the only server of `broken-model` fails.
 */
export interface ClientWorld {
  readonly gateway: TestApp
  readonly upstream: ScriptedUpstream
  readonly brokenUpstream: ScriptedUpstream
  /** The base URL for clients. */
  readonly baseUrl: string
  close(): Promise<void>
}

/** Starts a client world for the tests of this file. */
export function useClientWorld(options: TestAppOptions = {}): ClientWorld {
  return useResource(
    () => startClientWorld(options),
    world => world.close(),
  )
}

async function startClientWorld(options: TestAppOptions): Promise<ClientWorld> {
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

/** Every routing field of the gateway. They exclude the cloud of `cloud-model`, so the fallback `test-model` answers. */
export const constraints = {
  tier: 'cheapest',
  privacy_mode: true,
  trusted_only: true,
  max_latency_ms: 60_000,
  fallback_models: ['test-model'],
  allow_hosters: [someHoster],
  deny_hosters: [someHoster],
} as const

/** The same fields with invalid values. A refusal that names the field proves that the SDK has sent it. */
export const wrongConstraints: Record<keyof typeof constraints, unknown> = {
  tier: 'fast',
  privacy_mode: 'yes',
  trusted_only: 1,
  max_latency_ms: 0,
  fallback_models: 'test-model',
  allow_hosters: ['hoster-1'],
  deny_hosters: ['hoster-1'],
}

/** Expects that the constraints have excluded the cloud and have not been forwarded. */
export function expectConstraintsFollowed(world: ClientWorld, servedModel: string | undefined): void {
  expect(servedModel).toBe('test-model')
  const { body } = world.upstream.requests.at(-1)!
  expect(body.model).toBe('upstream-test-model')
  for (const field of Object.keys(constraints)) expect(body).not.toHaveProperty(field)
}

/** Expects that the client disconnected after `text`: the upstream is aborted, and exactly that text is billed. */
export async function expectLeftAndBilled(world: ClientWorld, customer: TestCustomer, text: string): Promise<void> {
  expect(await world.upstream.requests.at(-1)!.aborted).toBe(true)
  const [row] = await world.gateway.settled(customer, 1)
  expect(row).toMatchObject({ outcome: 'client_gone', usage_source: 'gateway', output_tokens: countTokens(text) })
  const { price } = testOffer(world.upstream.baseUrl)
  expect(row!.cost_nanos).toBe(costNanos(price, row!.input_tokens, row!.output_tokens))
  expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n - row!.cost_nanos)
}

/** A fetch that counts its calls, to see how often an SDK retries. */
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

/** Uses up the customer's requests of this minute or day. The minute ends one to two minutes from now. */
export async function useUpRequests(
  world: ClientWorld,
  customer: TestCustomer,
  window: 'minute' | 'day',
): Promise<void> {
  await world.gateway.database.pool.query(
    window === 'minute'
      ? `UPDATE balance SET minute = date_trunc('minute', now(), 'UTC') + interval '1 minute', minute_requests = 300 WHERE customer_id = $1`
      : `UPDATE balance SET day = (now() AT TIME ZONE 'UTC')::date + 1, day_requests = 50000 WHERE customer_id = $1`,
    [customer.customerId],
  )
}

/** One hour ahead of PostgreSQL, so that every window seems to have ended and Retry-After is always 1. */
export const fastClock = { epochMs: () => Date.now() + 3_600_000, monotonicMs: () => performance.now() }

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
