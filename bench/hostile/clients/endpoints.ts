import { randomUUID } from 'node:crypto'
import { mintApiKey } from '../../../src/identity/auth/api-key.ts'
import { atRate, type ClientBehaviour } from '../behaviour.ts'
import { chat, sends } from './send.ts'

const gets = (name: string, what: string, ratePerS: number, path: string) =>
  sends(name, what, { ratePerS }, () => ({ path }))
const stranger = { party: 'stranger' } as const

/** Customers with a valid key that flood other endpoints, or chat with small requests. */
export const endpointClients: readonly ClientBehaviour[] = [
  gets('usage', 'GET /v1/usage', 200, '/v1/usage'),
  gets('usage-year', 'a year of usage by the hour', 50, '/v1/usage/tokens?days=365&interval=hour'),
  gets('usage-breakdown', 'a year of costs', 50, '/v1/usage/breakdown?days=365'),
  gets('usage-export', 'a year of usage as CSV', 20, '/v1/usage/export?days=365'),
  gets('usage-requests', 'lists of requests', 100, '/v1/usage/requests?limit=100'),
  gets('models', 'lists of models', 500, '/v1/models'),
  gets('unknown-models', 'models that do not exist', 500, `/v1/models/${'x'.repeat(5_000)}`),
  gets('openapi', 'the OpenAPI document', 100, '/openapi.json'),
  gets('docs', 'the documentation', 100, '/docs'),
  gets('unknown-addresses', 'addresses that do not exist', 1_000, `/v1/${'a/'.repeat(2_000)}`),
  sends('keys', 'new API keys', { ratePerS: 50 }, () => ({ path: '/v1/keys', body: { name: 'flood' } })),
  sends('options', 'OPTIONS', { ratePerS: 1_000 }, () => ({
    method: 'OPTIONS',
    headers: { origin: 'https://example.com', 'access-control-request-method': 'POST' },
  })),
  sends('long-fields', '15 kB of Accept-Language', { ratePerS: 500 }, () => ({
    body: chat('a'),
    headers: { 'accept-language': 'en;q=0.1,'.repeat(1_600) },
  })),
  sends('many-fields', '900 header fields', { ratePerS: 200 }, () => ({
    body: chat('a'),
    headers: Object.fromEntries(Array.from({ length: 900 }, (_, at) => [`x${at}`, '1'])),
  })),
  sends('one-idempotency-key', 'the same Idempotency-Key', { ratePerS: 200 }, () => ({
    body: chat('a'),
    headers: { 'idempotency-key': 'one' },
  })),
  {
    name: 'idempotency-keys',
    what: 'a new Idempotency-Key in each request, 200 a second',
    party: 'customer',
    customer: { creditUsd: 1_000_000 },
    async run({ origin, headers, signal, note }) {
      await atRate(200, signal, async () => {
        const body = JSON.stringify(chat('a'))
        const init = {
          method: 'POST',
          headers: { ...headers, 'content-type': 'application/json', 'idempotency-key': randomUUID() },
          body,
          signal,
        }
        const response = await fetch(`${origin}/v1/chat/completions`, init).catch(() => null)
        await response?.arrayBuffer().catch(() => {})
        note(response?.status ?? 'cut')
      })
    },
  },
  sends('requests', 'small requests', { ratePerS: 500 }, () => ({ body: chat('a') })),
  sends(
    'requests-without-credit',
    'requests that nothing pays for',
    { ratePerS: 500, customer: { creditUsd: 0 } },
    () => ({ body: chat('a') }),
  ),
  sends(
    'requests-above-the-limit',
    'requests above the limit of the account',
    { ratePerS: 1_000, customer: { tier: 'free' } },
    () => ({ body: chat('a') }),
  ),
]

/** Strangers that send requests. */
export const endpointStrangers: readonly ClientBehaviour[] = [
  sends('wrong-keys', 'keys with a wrong checksum', { ratePerS: 1_000, ...stranger }, at => ({
    body: chat('a'),
    headers: { authorization: `Bearer sk-sy-${at}` },
  })),
  sends('no-keys', 'requests without a key', { ratePerS: 1_000, ...stranger }, () => ({ body: chat('a') })),
  {
    name: 'guessed-keys',
    what: 'keys that could exist, 500 a second',
    party: 'stranger',
    async run({ origin, signal, note }) {
      await atRate(500, signal, async () => {
        const headers = { authorization: `Bearer ${mintApiKey()}`, 'content-type': 'application/json' }
        const response = await fetch(`${origin}/v1/chat/completions`, {
          method: 'POST',
          headers,
          body: '{}',
          signal,
        }).catch(() => null)
        await response?.arrayBuffer().catch(() => {})
        note(response?.status ?? 'cut')
      })
    },
  },
  sends('foreign-hosts', 'foreign Host headers', { ratePerS: 1_000, ...stranger }, () => ({
    body: chat('a'),
    headers: { host: 'evil.example' },
  })),
  sends('unread-4-mb', 'bodies of 4 MB without a key', { ratePerS: 5, ...stranger }, () => ({
    body: 'x'.repeat(4_000_000),
  })),
]
