import { beforeEach, describe, expect, test } from 'vitest'
import { applyDuePrices } from '../../src/market/marketplace/apply-prices.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// A hoster left a model out of one manifest and put it back at 100 times the price: the notice of 24 hours looked only at models that
// were offered.

const HOUR_MS = 3_600_000
let offsetMs = 0
const clock = { epochMs: () => Date.now() + offsetMs, monotonicMs: () => performance.now() }
const upstream = useUpstream()
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true, price_change_minutes: 0 }',
  clock,
}))

let hosterId: string
let key: string
let model: string
let tests = 0
beforeEach(async () => {
  offsetMs = 0
  // So that models which wait for their probes go on waiting, whenever the job runs.
  upstream.always(status(500))
  model = `sold-${++tests}`
  const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 4_000_000n }
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: model, price, features: ['chat'] }] })
  key = (await hosterKey(app, hosterId, ['manage'])).key
})

const entry = (id: string, prompt: string, completion: string, more: object = {}) => ({
  id,
  context_length: 32_768,
  max_output_length: 8_192,
  pricing: { prompt, completion },
  ...more,
})
const cheap = () => entry(model, '0.000001', '0.000004')
const expensive = (id = model, more: object = {}) => entry(id, '0.0001', '0.0004', more)
const other = () => entry(`${model}-other`, '0.000001', '0.000004')
async function put(...models: object[]) {
  const response = await hosterRequest(app, key, 'hoster/manifest', { method: 'PUT', body: { models } })
  expect({ status: response.status, body: response.status === 200 ? '' : await response.text() }).toEqual({
    status: 200,
    body: '',
  })
}
async function waiting() {
  const { rows } = await app.database.pool.query<{ model_id: string; state: string; input: bigint }>(
    `SELECT model_id, state, input_pico_per_token AS input FROM hoster_price_change JOIN hoster_endpoint USING (endpoint_id)
      WHERE hoster_id = $1 AND state IN ('scheduled', 'probing') ORDER BY model_id`,
    [hosterId],
  )
  return rows.map(({ model_id, state }) => [model_id, state])
}
async function offeredModels() {
  const { rows } = await app.database.pool.query<{ model_id: string }>(
    'SELECT model_id FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) WHERE hoster_id = $1 AND valid_until IS NULL',
    [hosterId],
  )
  return rows.map(row => row.model_id)
}

test('a model that was left out waits for the notice when it comes back more expensive', async () => {
  await put(other())
  expect(await offeredModels()).not.toContain(model)
  await put(other(), expensive())
  expect(await waiting()).toEqual([
    [model, 'scheduled'],
    [`${model}-other`, 'probing'],
  ])
  offsetMs = 23 * HOUR_MS
  expect(await applyDuePrices(app.database.pool, clock.epochMs())).toBe(0)
})

test('it waits too when it was left out for longer than the notice', async () => {
  await put(other())
  offsetMs = 72 * HOUR_MS
  await put(other(), expensive())
  expect(await waiting()).toContainEqual([model, 'scheduled'])
  offsetMs = 97 * HOUR_MS
  await applyDuePrices(app.database.pool, clock.epochMs())
  // The notice has passed. It was not offered meanwhile, so its probes follow.
  expect(await waiting()).toContainEqual([model, 'probing'])
})

test('at its last price it comes back after its probes, without a notice', async () => {
  await put(other())
  await put(other(), cheap())
  expect(await waiting()).toContainEqual([model, 'probing'])
})

test('under another id it waits too', async () => {
  await put(expensive(`${model}-renamed`, { upstream_model: model }))
  expect(await waiting()).toEqual([[`${model}-renamed`, 'scheduled']])
})

test('behind another address it waits too', async () => {
  await app.database.pool.query(`UPDATE hoster SET state = 'pending' WHERE hoster_id = $1`, [hosterId])
  await put(expensive())
  expect(await waiting()).toEqual([[model, 'scheduled']])
  expect(await offeredModels()).toEqual([model])
})

describe('a hoster that retires and joins again', () => {
  test.each(['owner', 'domain'])('with the same %s has the same history', async shared => {
    const { pool } = app.database
    const first = hosterId
    const again = await app.hoster({ baseUrl: upstream.baseUrl, models: [] })
    await pool.query(`UPDATE hoster SET state = 'retired' WHERE hoster_id = $1`, [first])
    if (shared === 'domain') {
      await pool.query('UPDATE hoster SET domain = $2 WHERE hoster_id = ANY ($1)', [[first, again], `${model}.example`])
    } else {
      const { rows } = await pool.query<{ person_id: string }>(
        `INSERT INTO person (person_id, email, name) VALUES (gen_random_uuid(), $1, 'Owner') RETURNING person_id`,
        [`${model}@example.com`],
      )
      await pool.query(
        `INSERT INTO hoster_member (hoster_id, person_id, role) SELECT unnest($1::uuid[]), $2, 'owner'`,
        [[first, again], rows[0]!.person_id],
      )
    }
    key = (await hosterKey(app, again, ['manage'])).key
    hosterId = again
    await put(expensive())
    expect(await waiting()).toEqual([[model, 'scheduled']])
  })

  test('without either has none', async () => {
    const again = await app.hoster({ baseUrl: upstream.baseUrl, models: [] })
    await app.database.pool.query(`UPDATE hoster SET state = 'retired' WHERE hoster_id = $1`, [hosterId])
    key = (await hosterKey(app, again, ['manage'])).key
    hosterId = again
    await put(expensive())
    expect(await waiting()).toEqual([[model, 'probing']])
  })
})
