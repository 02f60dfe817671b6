import { beforeEach, describe, expect, test, vi } from 'vitest'
import { applyDuePrices } from '../../src/market/marketplace/apply-prices.ts'
import { listHostersToProbe } from '../../src/market/marketplace/manifests.ts'
import { enqueueDueProbes } from '../../src/market/marketplace/probe-models.ts'
import { approveOnce } from '../../src/market/supply/hosters/model-ids.ts'
import type { HosterStatus } from '../../src/wire/api/hoster-console.ts'
import type { StoredManifest } from '../../src/wire/api/hoster-manifest.ts'
import type { Verification } from '../../src/wire/api/hoster-verification.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
let offsetMs = 0
const clock = { epochMs: () => Date.now() + offsetMs, monotonicMs: () => performance.now() }
const upstream = useUpstream()
const second = useUpstream()
const app = useTestApp(() => ({ yaml: 'hosters: { allow_private_urls: true }', clock }))

let hosterId: string
let key: string
/** Each test has its own model, so that offers of other tests do not matter. */
let model: string
let tests = 0
beforeEach(async () => {
  offsetMs = 0
  model = `priced-${++tests}`
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 2_000_000n }
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: model, price, features: ['chat'] }] })
  key = (await hosterKey(app, hosterId, ['manage'])).key
  await approveOnce(app.database.pool, [`${model}-new`], 'For these tests.')
})

const modelAt = (prompt: unknown, completion: unknown, more: object = {}) => ({
  id: model,
  context_length: 32_768,
  max_output_length: 8_192,
  pricing: { prompt, completion, ...more },
})
const put = (...models: object[]) => hosterRequest(app, key, 'hoster/manifest', { method: 'PUT', body: { models } })
async function stored(response: Response | Promise<Response>): Promise<StoredManifest> {
  const answer = await response
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`)
  return (await answer.json()) as StoredManifest
}
/** Current price versions, in picodollars. */
async function priced() {
  const { rows } = await app.database.pool.query<{ version: number; input: bigint; output: bigint }>(
    `SELECT version, input_pico_per_token AS input, output_pico_per_token AS output
       FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) WHERE hoster_id = $1 AND valid_until IS NULL ORDER BY model_id`,
    [hosterId],
  )
  return rows.map(({ version, input, output }) => [version, Number(input), Number(output)])
}

test('a lower price is a new version at once, and a running request keeps the old one', async () => {
  const customer = await app.customer()
  const arrived = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  upstream.respondWith(async (request, response) => {
    arrived.resolve()
    await answered.promise
    await answer()(request, response)
  })
  const chat = { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  const running = app.chat(customer, chat)
  await arrived.promise
  await stored(put(modelAt('0.0000005', '0.000001')))
  await app.app.noticeChanges()
  answered.resolve()
  await (await running).arrayBuffer()
  await (await app.chat(customer, chat)).arrayBuffer()
  const rows = await app.settled(customer, 2)
  const { rows: versions } = await app.database.pool.query(
    'SELECT price_version FROM usage_event WHERE customer_id = $1 ORDER BY request_id',
    [customer.customerId],
  )
  expect(versions).toEqual([{ price_version: 1 }, { price_version: 2 }])
  expect(rows[0]!.cost_nanos).toBe(2n * rows[1]!.cost_nanos)
})

test('prices change once in ten minutes, and the wait is in Retry-After', async () => {
  await stored(put(modelAt('0.0000009', '0.000002')))
  await stored(put(modelAt('0.0000009', '0.000002')))
  const refused = await put(modelAt('0.0000008', '0.000002'))
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(590)
  expect(await readError(refused)).toMatchObject({ status: 429, code: 'price_change_too_soon' })
  expect(await priced()).toEqual([[2, 900_000, 2_000_000]])
  offsetMs = 10 * MINUTE_MS
  await stored(put(modelAt('0.0000008', '0.000002')))
  expect(await priced()).toEqual([[3, 800_000, 2_000_000]])
})

// Went wrong: an open page that changed the region sent the prices of when it was opened, and undid a change made meanwhile.
test('a change of another version than the latest is refused', async () => {
  const putAt = (version: number | string, prompt: string) =>
    hosterRequest(app, key, `hoster/manifest?version=${version}`, {
      method: 'PUT',
      body: { models: [modelAt(prompt, '0.000002')] },
    })
  expect((await stored(putAt(0, '0.0000009'))).version).toBe(1)
  offsetMs = 10 * MINUTE_MS
  for (const late of [0, 2])
    expect(await readError(await putAt(late, '0.000001'))).toMatchObject({ status: 409, code: 'changed_meanwhile' })
  expect(await readError(await putAt('two', '0.000001'))).toMatchObject({ status: 400, param: 'version' })
  expect(await priced()).toEqual([[2, 900_000, 2_000_000]])
  expect((await stored(putAt(1, '0.0000008'))).version).toBe(2)
  expect(await priced()).toEqual([[3, 800_000, 2_000_000]])
})

test('requests beyond max_concurrent go to another hoster, and a change of it counts at once', async () => {
  const price = { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n }
  const expensive = await app.hoster({
    baseUrl: second.baseUrl,
    models: [{ modelId: model, price, features: ['chat'] }],
  })
  const same = { ...modelAt('0.000001', '0.000002'), supported_features: ['chat'] }
  await stored(put({ ...same, max_concurrent: 1 }))
  await app.app.noticeChanges()
  const customer = await app.customer()
  const release = Promise.withResolvers<void>()
  const arrived = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  upstream.respondWith(
    ...arrived.map(({ resolve }) => async (...exchange: Parameters<ReturnType<typeof answer>>) => {
      resolve()
      await release.promise
      await answer()(...exchange)
    }),
  )
  const chat = { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10, tier: 'cheapest' }
  const served = async (response: Response | Promise<Response>) => (await response).headers.get('x-switchyard-hoster')
  const running = app.chat(customer, chat)
  await arrived[0]!.promise
  expect(await served(app.chat(customer, chat))).toBe(expensive)
  // It is no price, so the ten minutes between two changes do not count, and neither does the version change.
  await stored(put({ ...same, max_concurrent: 2 }))
  await app.app.noticeChanges()
  const next = app.chat(customer, chat)
  await arrived[1]!.promise
  release.resolve()
  expect(await Promise.all([served(running), served(next)])).toEqual([hosterId, hosterId])
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
  await stored(put(same))
  const { rows } = await app.database.pool.query(
    'SELECT max_concurrent FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) WHERE hoster_id = $1',
    [hosterId],
  )
  expect(rows).toEqual([{ max_concurrent: null }])
})

test.each([0, -1, 1.5, '8', 100_001])('max_concurrent %j is refused', async value => {
  const refused = await put({ ...modelAt('0.000001', '0.000002'), max_concurrent: value })
  expect(await readError(refused)).toMatchObject({ status: 400, param: 'models[0].max_concurrent' })
})

test('a rise of more than 20 percent waits 24 hours and is then applied once, however many nodes do it', async () => {
  const first = await stored(put(modelAt('0.000002', '0.000004')))
  expect(first.scheduled).toMatchObject([{ model, prompt: '0.000002', completion: '0.000004' }])
  const appliesAt = first.scheduled[0]!.applies_at
  expect(Date.parse(appliesAt) - Date.now()).toBeGreaterThan(23 * HOUR_MS)
  offsetMs = HOUR_MS
  expect((await stored(put(modelAt('0.000002', '0.000004')))).scheduled[0]!.applies_at).toBe(appliesAt)
  const { pool } = app.database
  expect(await applyDuePrices(pool, clock.epochMs())).toBe(0)
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])

  const due = Date.parse(appliesAt)
  const applied = await Promise.all([1, 2, 3, 4].map(() => applyDuePrices(pool, due)))
  expect(applied.reduce((sum, each) => sum + each)).toBe(1)
  expect(await priced()).toEqual([[2, 2_000_000, 4_000_000]])
})

test('the old price cancels a rise that waits', async () => {
  await stored(put(modelAt('0.000002', '0.000004')))
  offsetMs = 11 * MINUTE_MS
  expect((await stored(put(modelAt('0.000001', '0.000002')))).scheduled).toEqual([])
  expect(await applyDuePrices(app.database.pool, Date.now() + 48 * HOUR_MS)).toBe(0)
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
})

test('a model that is left out is withdrawn, and one that comes back has the next version', async () => {
  const other = { ...modelAt('0.000001', '0.000002'), id: `${model}-other` }
  await stored(put(other))
  await vi.waitFor(async () => expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]]), WAIT_OPTIONS)
  offsetMs = 11 * MINUTE_MS
  await stored(put(other, modelAt('0.000001', '0.000002')))
  await vi.waitFor(
    async () =>
      expect(await priced()).toEqual([
        [2, 1_000_000, 2_000_000],
        [1, 1_000_000, 2_000_000],
      ]),
    WAIT_OPTIONS,
  )
})

/** The result of the probes of one model, once the job has ended. */
function probed(modelId: string, since = '') {
  return vi.waitFor(async () => {
    const shown = (await (await hosterRequest(app, key, 'hoster/verification')).json()) as Verification
    const found = shown.probes.find(each => each.model === modelId)
    if (found === undefined || shown.checked_at! <= since) throw new Error('not probed yet')
    return { ...found, at: shown.checked_at! }
  }, WAIT_OPTIONS)
}

test('a new model of an active hoster is offered when its probes have passed, and the others stay offered', async () => {
  const live = modelAt('0.000001', '0.000002')
  const added = { ...live, id: `${model}-new` }
  upstream.respondWith(status(500, { error: { message: 'out of memory' } }))
  expect((await stored(put(live, added))).probing).toEqual([added.id])
  const failed = await probed(added.id)
  expect(failed).toMatchObject({ passed: 0, problem: 'the server answered with status 500' })
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
  await app.app.noticeChanges()
  const customer = await app.customer()
  const chat = { model: added.id, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await app.chat(customer, chat)).status).toBe(404)

  upstream.respondWith(answer())
  const again = await hosterRequest(app, key, 'hoster/verification', { method: 'POST' })
  expect(again.status).toBe(200)
  expect(await probed(added.id, failed.at)).toMatchObject({ passed: 3, problem: null })
  expect((await stored(hosterRequest(app, key, 'hoster/manifest'))).probing).toEqual([])
  await app.app.noticeChanges()
  expect((await app.chat(customer, chat)).status).toBe(200)
  const nothing = await hosterRequest(app, key, 'hoster/verification', { method: 'POST' })
  expect(await readError(nothing)).toMatchObject({ status: 409, code: 'hoster_state_refused' })
})

test('another model of the server is probed first, and the old one is served until then', async () => {
  upstream.respondWith(status(404, { error: { message: 'no such model' } }))
  const swapped = { ...modelAt('0.000001', '0.000002'), upstream_model: 'another' }
  await stored(put(swapped))
  const failed = await probed(model)
  expect(failed.problem).toMatch(/status 404/)
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
  // Sending it again starts the probes again, without a wait: the prices are the same.
  upstream.respondWith(answer())
  await stored(put(swapped))
  expect(await probed(model, failed.at)).toMatchObject({ passed: 3 })
  expect(await priced()).toEqual([[2, 1_000_000, 2_000_000]])
})

test('a manifest without the waiting model ends its wait', async () => {
  upstream.respondWith(status(500, {}))
  const live = modelAt('0.000001', '0.000002')
  await stored(put(live, { ...live, id: `${model}-new` }))
  await probed(`${model}-new`)
  offsetMs = 11 * MINUTE_MS
  expect((await stored(put(live))).probing).toEqual([])
  await enqueueDueProbes(app.database.pool, clock.epochMs())
  expect(await listHostersToProbe(app.database.pool, { beforeMs: clock.epochMs(), sinceMs: 0 })).not.toContain(hosterId)
})

test('failed probes are repeated after ten minutes, for a day', async () => {
  upstream.respondWith(status(500, {}))
  const live = modelAt('0.000001', '0.000002')
  await stored(put(live, { ...live, id: `${model}-new` }))
  const failed = await probed(`${model}-new`)
  const waiting = async () => ((await (await hosterRequest(app, key, 'hoster/status')).json()) as HosterStatus).waiting
  expect(await waiting()).toMatchObject([
    { model: `${model}-new`, state: 'failed', passed: 0, problem: 'the server answered with status 500' },
  ])
  const [{ probed_at, again_at }] = (await waiting()) as [HosterStatus['waiting'][number]]
  expect(Date.parse(again_at!) - Date.parse(probed_at!)).toBe(10 * MINUTE_MS)
  upstream.respondWith(answer())
  const { pool } = app.database
  await enqueueDueProbes(pool, Date.now() + 25 * HOUR_MS)
  offsetMs = 11 * MINUTE_MS
  await enqueueDueProbes(pool, clock.epochMs())
  expect(await probed(`${model}-new`, failed.at)).toMatchObject({ passed: 3 })
  expect(await waiting()).toEqual([])
})

describe('security 46: an absurd price is refused and changes nothing', () => {
  test.each([
    ['negative', '-0.000001', '0.000002', 'prompt'],
    ['not a number', 'NaN', '0.000002', 'prompt'],
    ['with an exponent', '1e-6', '0.000002', 'prompt'],
    ['a JSON number', 0.000001, '0.000002', 'prompt'],
    ['astronomical', '1e30', '0.000002', 'prompt'],
    ['zero', '0', '0.000002', 'prompt'],
    ['zero for output', '0.000001', '0', 'completion'],
    ['above the bound of the operator', '0.000101', '0.000002', 'prompt'],
    ['above the bound for output', '0.000001', '0.000401', 'completion'],
    ['too precise', '0.0000000000001', '0.000002', 'prompt'],
  ])('%s', async (_, prompt, completion, field) => {
    const refused = await readError(await put(modelAt(prompt, completion)))
    expect(refused).toMatchObject({ status: 400, code: 'invalid_value', param: `models[0].pricing.${field}` })
    expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
  })

  test('a cache price above the input price', async () => {
    const refused = await readError(await put(modelAt('0.000001', '0.000002', { input_cache_read: '0.000002' })))
    expect(refused).toMatchObject({ status: 400, param: 'models[0]' })
  })
})

test.each([
  ['an unknown field', { trust_score: 1 }, 'models[0].trust_score'],
  ['a model that is reserved', { id: 'auto' }, 'models[0]'],
  ['an output longer than the context', { max_output_length: 40_000 }, 'models[0]'],
  ['an unknown quantization', { quantization: 'q4' }, 'models[0].quantization'],
  ['half of a character in a name', { name: '\ud800' }, 'models[0].name'],
])('security 10: a manifest with %s is refused', async (_, change, param) => {
  expect(await readError(await put({ ...modelAt('0.000001', '0.000002'), ...change }))).toMatchObject({
    status: 400,
    param,
  })
})

test.each([
  ['100,000 models', () => JSON.stringify({ models: Array(100_000).fill(modelAt('0.000001', '0.000002')) }), 413],
  ['201 models', () => JSON.stringify({ models: Array(201).fill(modelAt('0.000001', '0.000002')) }), 400],
  ['200,000 levels', () => `${'['.repeat(200_000)}${']'.repeat(200_000)}`, 400],
  ['a deep model', () => `{"models":[${'{"a":'.repeat(100)}1${'}'.repeat(100)}]}`, 400],
  ['a prototype', () => `{"models":[{"id":"x","__proto__":{"context_length":1},"constructor":{}}]}`, 400],
  ['two models of one id', () => JSON.stringify({ models: Array(2).fill(modelAt('0.000001', '0.000002')) }), 400],
  [
    'letters that look like others in an id',
    () => JSON.stringify({ models: [{ ...modelAt('1', '1'), id: 'ｑwen' }] }),
    400,
  ],
  [
    'a mark that turns the text in a name',
    () => JSON.stringify({ models: [{ ...modelAt('1', '1'), name: '\u202efree' }] }),
    400,
  ],
  ['a price of 40,000 digits', () => JSON.stringify({ models: [modelAt('0.000001'.padEnd(40_000, '0'), '1')] }), 400],
  [
    'a context beyond every integer',
    () =>
      `{"models":[{"id":"x","context_length":1e999,"max_output_length":1,"pricing":{"prompt":"1","completion":"1"}}]}`,
    400,
  ],
])('a manifest with %s is refused, and the node goes on', async (_what, body, status) => {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const refused = await fetch(`${app.url}/v1/hoster/manifest`, { method: 'PUT', headers, body: body() })
  expect((await readError(refused)).status).toBe(status)
  expect(await priced()).toEqual([[1, 1_000_000, 2_000_000]])
})

test('a key without the scope manage changes no price', async () => {
  const { key: reader } = await hosterKey(app, hosterId, ['read', 'serve'])
  const refused = await hosterRequest(app, reader, 'hoster/manifest', { method: 'PUT', body: { models: [] } })
  expect(await readError(refused)).toMatchObject({ status: 403, code: 'insufficient_scope' })
})
