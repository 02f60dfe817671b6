import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { loadConfig } from '../../start/config/config.ts'
import { configuredOffers } from '../../start/config/configured-offers.ts'
import { checkEndpoints } from './check-endpoints.ts'

const cwd = mkdtempSync(join(tmpdir(), 'switchyard-endpoints-'))
afterAll(() => rmSync(cwd, { recursive: true }))

/** Runs the check of one endpoint against a server. Returns the finding, with the address of the server as `URL`. */
async function checked(settings: string, models: readonly string[], answer: (request: IncomingMessage) => object) {
  const server = createServer((request, response) => {
    const body = answer(request)
    response.writeHead('error' in body ? 400 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(body))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const listed = models.map(id => `{ id: "${id}", price_per_million_usd: { input: 1, output: 1 } }`)
  const endpoint = `name: a, kind: cloud, base_url: "${url}/v1", api_key: key, ${settings}, models: [${listed}]`
  writeFileSync(join(cwd, 'switchyard.yaml'), `endpoints: [{ ${endpoint} }]`)
  try {
    const [finding] = await checkEndpoints(configuredOffers(loadConfig({ env: {}, cwd })))
    return { ok: finding!.ok, detail: finding!.detail.replaceAll(url, 'URL') }
  } finally {
    server.close()
  }
}

const openAi = ({ url }: IncomingMessage) =>
  url === '/v1/models' ? { data: [{ id: 'm' }] } : { error: 'no such path' }

function anthropic({ url, headers }: IncomingMessage) {
  if (url !== '/v1/models?limit=1000' || headers['anthropic-version'] === undefined || headers['x-api-key'] !== 'key')
    return { error: 'bad request' }
  return {
    data: [
      { type: 'model', id: 'claude-opus-5' },
      { type: 'model', id: 'claude-haiku-4-5-20251001' },
    ],
  }
}

function google({ url, headers }: IncomingMessage) {
  if (url !== '/v1/models?pageSize=1000' || headers['x-goog-api-key'] !== 'key') return { error: 'bad request' }
  return { models: [{ name: 'models/gemini-3.8-flash' }] }
}

const messages = 'speaks: [messages], key_header: x-api-key'
const gemini = 'speaks: [gemini], key_header: x-goog-api-key'

test.each([
  ['speaks: [chat]', ['m'], openAi, 'URL/v1 answers and lists its model'],
  ['speaks: [responses]', ['m'], openAi, 'URL/v1 answers and lists its model'],
  ['speaks: [messages, chat]', ['m'], openAi, 'URL/v1 answers and lists its model'],
  [messages, ['claude-opus-5', 'claude-haiku-4-5'], anthropic, 'URL/v1 answers and lists all 2 models'],
  [gemini, ['gemini-3.8-flash'], google, 'URL/v1 answers and lists its model'],
  [
    'speaks: [converse]',
    ['m'],
    () => ({ error: 'unknown operation' }),
    'URL/v1 answers; its API has no list of models, so they are not checked',
  ],
])('an endpoint with %s passes', async (settings, models, answer, detail) => {
  expect(await checked(settings, models, answer)).toEqual({ ok: true, detail })
})

test.each([
  ['speaks: [chat]', openAi, 'URL/v1 does not list gone. Check upstream_model.'],
  [messages, anthropic, 'URL/v1 does not list gone. Check upstream_model.'],
  [gemini, google, 'URL/v1 does not list gone. Check upstream_model.'],
  [
    gemini,
    () => ({ error: 'no such version' }),
    'URL/v1/models answers 400 without a list of models. Check that base_url ends in /v1beta.',
  ],
])('an endpoint with %s that cannot serve its model fails', async (settings, answer, detail) => {
  expect(await checked(settings, ['gone'], answer)).toEqual({ ok: false, detail })
})
