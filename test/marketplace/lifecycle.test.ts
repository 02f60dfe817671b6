import type { ServerResponse } from 'node:http'
import { expect, onTestFinished, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { passAgentChallenge } from '../../src/market/marketplace/pass-agent-challenge.ts'
import type { Verification } from '../../src/wire/api/hoster-verification.ts'
import { startAgent } from '../agent/agent-world.ts'
import { type BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { type ScriptedUpstream, startScriptedUpstream, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp({ yaml: 'hosters: { allow_private_urls: true }' })
const upstream = useResource(startScriptedUpstream, each => each.close(), 'test')
const manifest = {
  region: 'DE',
  data_policy: { trains_on_data: false, retention_days: 0 },
  models: [
    {
      id: 'market-model',
      context_length: 32_768,
      max_output_length: 8_192,
      quantization: 'fp8',
      supported_features: ['tools'],
      pricing: { prompt: '0.000001', completion: '0.000002' },
    },
  ],
}
let names = 0

/** A person who applies, and gets the hoster. */
async function applied(server: object = { transport: 'direct', base_url: upstream.baseUrl }) {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId)
  const name = `applicant-${++names}`
  const answer = await browser.post('hosters', { name, ...server })
  expect(answer.status).toBe(200)
  const { id, data } = (await answer.json()) as { id: string; data: object[] }
  expect(data).toEqual([{ id, name, state: 'applied', role: 'owner' }])
  return { browser, id, name, path: `hosters/${id}` }
}

/** Starts a check, and waits until the job has ended. */
async function check(browser: BrowserClient, path: string): Promise<Verification> {
  const started = await verificationIn(await browser.post(`${path}/verification`))
  return checkedAfter(browser, path, started.checked_at)
}

async function verificationIn(response: Response): Promise<Verification> {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()) as Verification
}

function checkedAfter(browser: BrowserClient, path: string, before: string | null): Promise<Verification> {
  return vi.waitFor(async () => {
    const found = await verificationIn(await browser.get(`${path}/verification`))
    if (found.checked_at === before) throw new Error('not checked yet')
    return found
  }, WAIT_OPTIONS)
}

const publish = (server: ScriptedUpstream, nonce: string | null) =>
  server.respondToProbesWith((request, response) =>
    status(200, request.path.endsWith('/switchyard-challenge') ? { challenge: nonce } : { data: [] })(
      request,
      response,
    ),
  )

test('a hoster applies, proves its server, sends a manifest and is verified', async () => {
  const { browser, path } = await applied()
  expect((await (await browser.get(path)).json()) as object).toMatchObject({ state: 'applied', trust_score: 0 })

  const first = await check(browser, path)
  expect(first).toMatchObject({
    state: 'pending',
    challenge: { passed: false, url: `${upstream.baseUrl}/switchyard-challenge`, nonce: expect.any(String) },
  })
  expect(first.challenge.problem).toMatch(/does not publish the nonce/)

  publish(upstream, first.challenge.nonce)
  const second = await check(browser, path)
  expect(second).toMatchObject({
    state: 'pending',
    challenge: { passed: true, problem: null },
    manifest: { passed: false },
  })
  expect(second.manifest.problem).toMatch(/no model with prices/)

  upstream.respondWith(status(500, { error: { message: 'out of memory' } }))
  expect((await browser.send('PUT', `${path}/manifest`, manifest)).status).toBe(200)
  const third = await checkedAfter(browser, path, second.checked_at)
  expect(third.probes).toEqual([
    {
      model: 'market-model',
      passed: 0,
      problem: 'the server answered with status 500',
      problem_codes: [{ code: 'hoster.probe.status', values: { status: '500' } }],
    },
  ])
  expect(third.state).toBe('pending')

  const last = await check(browser, path)
  expect(last).toMatchObject({
    state: 'verified',
    manifest: { passed: true },
    prices: { passed: true },
    probes: [{ model: 'market-model', passed: 3, problem: null }],
  })
  const { state_changes: changes } = (await (await browser.get(path)).json()) as { state_changes: object[] }
  expect(changes).toMatchObject([
    { from: 'pending', to: 'verified', by: 'system' },
    { from: 'applied', to: 'pending', by: 'hoster' },
    { from: null, to: 'applied', by: 'hoster' },
  ])
})

test('the nonce may be the id of a model, and the model list may be the manifest', async () => {
  const { browser, path } = await applied()
  const { challenge } = await check(browser, path)
  const entry = {
    id: 'listed-model',
    context_length: 4_096,
    max_output_length: 1_024,
    quantization: 'int4',
    input_modalities: ['text', 'image'],
    supported_features: ['tools', 'structured_outputs', 'web_search'],
    pricing: { prompt: '0.0000005', completion: '0.000001', request: '0' },
    datacenters: [{ country_code: 'FR' }],
    is_ready: true,
  }
  upstream.respondToProbesWith(status(200, { data: [{ id: challenge.nonce }, { id: 'unpriced' }, entry] }))
  expect((await check(browser, path)).state).toBe('verified')
  const stored = await (await browser.get(`${path}/manifest`)).json()
  expect(stored).toMatchObject({
    source: 'read',
    manifest: {
      region: 'FR',
      models: [{ id: 'listed-model', supported_features: ['tools', 'json_schema', 'images'], quantization: 'int4' }],
    },
  })
})

const listed = (change: object) =>
  JSON.stringify({
    data: [
      {
        id: 'm',
        context_length: 4_096,
        max_output_length: 1_024,
        pricing: { prompt: '0.000001', completion: '0.000002' },
        ...change,
      },
    ],
  })
test.each<[what: string, answer: (response: ServerResponse) => void]>([
  ['a list without end', response => endless(response)],
  ['a list of 2 MB', response => response.end(listed({ description: 'x'.repeat(2_000_000) }))],
  ['200,000 levels', response => response.end(`${'['.repeat(200_000)}${']'.repeat(200_000)}`)],
  [
    'a list of 5,000 models',
    response => response.end(`{"data":[${Array(5_000).fill(listed({}).slice(9, -2)).join()}]}`),
  ],
  ['a negative price', response => response.end(listed({ pricing: { prompt: '-1', completion: '1' } }))],
  ['a price beyond numbers', response => response.end(listed({ pricing: { prompt: '1e400', completion: '1' } }))],
  ['a NUL in a name', response => response.end(listed({ name: 'evil\0name' }))],
  ['an id in another script', response => response.end(listed({ id: 'еvil' }))],
  ['a prototype', response => response.end('{"data":[{"__proto__":{"id":"evil","pricing":{"prompt":"1"}}}]}')],
  ['a web page', response => response.end('<script>evil()</script>')],
])(
  'a server that sends %s at its verification stays pending, and the reason repeats nothing of it',
  async (_what, list) => {
    const { browser, path } = await applied()
    const { challenge } = await check(browser, path)
    upstream.respondToProbesWith((request, response) =>
      request.path.endsWith('/switchyard-challenge')
        ? status(200, { challenge: challenge.nonce })(request, response)
        : list(response.writeHead(200)),
    )
    const found = await check(browser, path)
    expect(found).toMatchObject({ state: 'pending', challenge: { passed: true }, manifest: { passed: false } })
    expect(found.manifest.problem).toMatch(/^[ -~]{10,300}$/)
    expect(found.manifest.problem).not.toContain('evil')
  },
)

/** Writes until the reader leaves. */
function endless(response: ServerResponse): void {
  const piece = `${' '.repeat(65_536)}`
  const next = () => {
    if (!response.destroyed) response.write(piece, () => setImmediate(next))
  }
  next()
}

test('security 32: a server that redirects the gateway is not followed', async () => {
  const inside = await startScriptedUpstream()
  onTestFinished(() => inside.close())
  const { browser, path } = await applied()
  upstream.respondToProbesWith((request, response) => {
    response.writeHead(302, { location: inside.baseUrl + request.path.slice('/v1'.length) }).end()
  })
  const found = await check(browser, path)
  expect(found).toMatchObject({ state: 'pending', challenge: { passed: false } })
  expect(inside.probes).toEqual([])
})

test('an agent proves its key, and needs no address', async () => {
  const { browser, path, id } = await applied({ transport: 'agent' })
  expect((await (await browser.get(path)).json()) as object).toMatchObject({
    endpoint: { transport: 'agent', base_url: null },
  })
  const { rows } = await app.database.pool.query<{ endpoint_id: string }>(
    'SELECT endpoint_id FROM hoster_endpoint WHERE hoster_id = $1',
    [id],
  )
  await transaction(app.database.pool, sql => passAgentChallenge(sql, rows[0]!.endpoint_id, Date.now()))
  await vi.waitFor(async () => {
    const found = (await (await browser.get(`${path}/verification`)).json()) as Verification
    expect(found).toMatchObject({
      state: 'pending',
      challenge: { passed: true, nonce: null },
      manifest: { passed: false },
    })
    expect(found.manifest.problem).toMatch(/Send one/)
  }, WAIT_OPTIONS)
})

test('an agent that serves its models is verified through its own connections', async () => {
  const { browser, path, id } = await applied({ transport: 'agent' })
  await browser.send('PUT', `${path}/manifest`, manifest)
  const { key } = await hosterKey(app, id, ['serve'])
  const server = await startScriptedUpstream({ models: ['market-model'] })
  const agent = startAgent(key, app.url, { upstream: server })
  try {
    await vi.waitFor(async () => {
      const found = (await (await browser.get(`${path}/verification`)).json()) as Verification
      expect(found).toMatchObject({ state: 'verified', challenge: { passed: true } })
    }, WAIT_OPTIONS)
    expect(server.requests.length).toBeGreaterThanOrEqual(3)
    const { models } = await agent.saw('models')
    expect(models.not_served).toEqual([{ id: 'market-model', reason: expect.stringContaining('the hoster is') }])
  } finally {
    agent.stop()
    await server.close()
  }
})

test('another server is verified again before it gets requests', async () => {
  const { browser, path, id } = await applied()
  const { challenge } = await check(browser, path)
  publish(upstream, challenge.nonce)
  await browser.send('PUT', `${path}/manifest`, manifest)
  expect((await check(browser, path)).state).toBe('verified')
  const { key } = await hosterKey(app, id, ['manage'])
  const other = await startScriptedUpstream()
  try {
    const body = { transport: 'direct', base_url: other.baseUrl }
    const changed = await hosterRequest(app, key, 'hoster/server', { method: 'PUT', body })
    expect(await changed.json()).toMatchObject({ state: 'pending', endpoint: { challenge_passed_at: null } })
    const again = await check(browser, path)
    expect(again.challenge).toMatchObject({ passed: false })
    expect(again.challenge.nonce).not.toBe(challenge.nonce)
  } finally {
    await other.close()
  }
})

test('checks that are asked for again and again while others end do not block each other', async () => {
  const { browser, path } = await applied()
  const { challenge } = await check(browser, path)
  publish(upstream, challenge.nonce)
  await browser.send('PUT', `${path}/manifest`, manifest)
  const asked: number[] = []
  for (let n = 0; n < 30; n++) asked.push((await browser.post(`${path}/verification`)).status)
  expect(asked).toEqual(Array.from({ length: 30 }, () => 200))
  await vi.waitFor(async () => {
    const { state } = await verificationIn(await browser.get(`${path}/verification`))
    expect(state).toBe('verified')
  }, WAIT_OPTIONS)
})

test('an address is held by one hoster, until that one retires; the next one inherits nothing', async () => {
  const { browser, path, id, name } = await applied()
  const server = { transport: 'direct', base_url: upstream.baseUrl }
  const { browser: other } = await signedInMember(app, (await app.customer()).customerId)
  const taken = await other.post('hosters', { name: `applicant-${++names}`, ...server })
  expect(await readError(taken)).toMatchObject({ status: 400, code: 'invalid_value', param: 'base_url' })
  expect(await readError(await other.post('hosters', { name, transport: 'agent' }))).toMatchObject({ param: 'name' })
  await app.database.pool.query('UPDATE hoster SET trust_score = 0.9 WHERE hoster_id = $1', [id])
  const { key } = await hosterKey(app, id)
  expect((await browser.post(`${path}/state`, { state: 'retired', reason: 'Moving on.' })).status).toBe(200)
  const again = await other.post('hosters', { name: `applicant-${++names}`, ...server })
  const { id: nextId } = (await again.json()) as { id: string }
  const next = (await (await other.get(`hosters/${nextId}`)).json()) as object
  expect(next).toMatchObject({ state: 'applied', trust_score: 0, active_since: null })
  await app.app.noticeChanges()
  expect(await readError(await hosterRequest(app, key, 'hoster'))).toMatchObject({ code: 'invalid_hoster_key' })
})

test.each([
  [
    'a private address without permission is checked by the same rules as today',
    { transport: 'direct', base_url: 'ftp://a.example/v1' },
    'base_url',
  ],
  ['no address', { transport: 'direct' }, 'base_url'],
  ['an unknown transport', { transport: 'carrier pigeon' }, 'transport'],
  ['security 10: a field that is not of an application', { transport: 'agent', trust_score: 1 }, 'trust_score'],
  ['security 10: a state', { transport: 'agent', state: 'active' }, 'state'],
  ['security 46: a share', { transport: 'agent', share_bps: 20_000 }, 'share_bps'],
])('an application with %s is refused', async (_, fields, param) => {
  const { browser } = await signedInMember(app, (await app.customer()).customerId)
  const refused = await readError(await browser.post('hosters', { name: `applicant-${++names}`, ...fields }))
  expect(refused).toMatchObject({ status: 400, param })
  expect(await (await browser.get('hosters')).json()).toMatchObject({ data: [] })
})

test('a hoster pauses and resumes itself, and does nothing that only operators may', async () => {
  const id = await app.hoster({ baseUrl: upstream.baseUrl })
  const { key } = await hosterKey(app, id, ['manage'])
  const change = (state: string) => hosterRequest(app, key, 'hoster/state', { method: 'POST', body: { state } })
  expect(await (await change('paused')).json()).toMatchObject({ state: 'paused' })
  expect(await readError(await change('paused'))).toMatchObject({ status: 409, code: 'hoster_state_refused' })
  expect(await (await change('active')).json()).toMatchObject({ state: 'active' })
  for (const state of ['verified', 'suspended', 'applied'])
    expect(await readError(await change(state))).toMatchObject({ status: 400, param: 'state' })
  await app.database.pool.query("UPDATE hoster SET state = 'suspended' WHERE hoster_id = $1", [id])
  for (const state of ['active', 'paused', 'retired'])
    expect(await readError(await change(state))).toMatchObject({ status: 409 })
})
