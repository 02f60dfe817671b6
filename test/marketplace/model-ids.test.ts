import { beforeAll, beforeEach, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { changeHosterState, commandLineActor } from '../../src/market/marketplace/change-hoster-state.ts'
import type { HosterStatus } from '../../src/wire/api/hoster-console.ts'
import type { HosterFacts } from '../../src/wire/api/public-hosters.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const own = useUpstream()
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true, price_change_minutes: 0 }',
  offers: [{ ...testOffer(own.baseUrl), modelId: 'own-model', offerId: 'own/own-model' }],
}))
const customer = useCustomer(app)

let operator: BrowserClient
let hosterId: string
let key: string
/** Each test has ids of its own, because a decision is good for all hosters. */
let strange: string
let tests = 0
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})
beforeEach(async () => {
  strange = `gpt-9-${++tests}`
  hosterId = await app.hoster({ baseUrl: upstream.baseUrl, models: [{ modelId: `base-${tests}` }] })
  key = (await hosterKey(app, hosterId, ['manage', 'read'])).key
})

const modelOf = (id: string) => ({
  ...{ id, context_length: 32_768, max_output_length: 8_192, upstream_model: 'test-model' },
  pricing: { prompt: '0.000001', completion: '0.000002' },
})
/** Sends a manifest and waits until its models are probed. */
async function offer(...ids: string[]) {
  const models = [`base-${tests}`, ...ids].map(modelOf)
  const sent = await hosterRequest(app, key, 'hoster/manifest', { method: 'PUT', body: { models } })
  if (sent.status !== 200) throw new Error(`${sent.status} ${await sent.text()}`)
  await expect
    .poll(async () => (await status()).waiting.filter(({ state }) => state === 'waiting'), WAIT_OPTIONS)
    .toEqual([])
  await app.app.noticeChanges()
}
const status = async () => (await (await hosterRequest(app, key, 'hoster/status')).json()) as HosterStatus
const ask = async (model: string) => {
  const answer = await app.chat(customer, { model, max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] })
  return answer.status === 200 ? answer.headers.get('x-switchyard-hoster') : (await readError(answer)).code
}
const unapproved = async () =>
  ((await (await operator.get('operator/model-ids')).json()) as { data: { model: string }[] }).data.find(
    ({ model }) => model === strange,
  )
const decide = (decision: string, reason: string) =>
  operator.post('operator/model-ids', { model: strange, decision, reason })

test('an id that nobody knows waits for an operator, and the decision is good for all hosters', async () => {
  await offer(strange)
  expect(await ask(strange)).toBe('model_not_found')
  const shown = (await (await app.get(customer, `/v1/hosters/${hosterId}`)).json()) as HosterFacts
  expect(shown.models.map(({ id }) => id)).not.toContain(strange)
  expect((await status()).waiting).toMatchObject([{ model: strange, state: 'unapproved', problem: null }])
  expect(await unapproved()).toMatchObject({ state: 'waiting', hosters: [{ id: hosterId, is_active: true }] })
  const { alarms } = (await (await operator.get('operator/overview')).json()) as { alarms: { kind: string }[] }
  expect(alarms).toContainEqual(expect.objectContaining({ kind: 'models_waiting' }))

  expect((await decide('refuse', 'There is no such model.')).status).toBe(200)
  expect((await status()).waiting).toMatchObject([
    { model: strange, state: 'refused', problem: 'There is no such model.' },
  ])
  expect(await unapproved()).toMatchObject({ state: 'refused', reason: 'There is no such model.' })

  expect((await decide('approve', 'It exists after all.')).status).toBe(200)
  await app.app.noticeChanges()
  expect(await ask(strange)).toBe(hosterId)
  expect((await status()).waiting).toEqual([])
  expect(await unapproved()).toBeUndefined()
  const { rows } = await app.database.pool.query(
    `SELECT action, detail ->> 'reason' AS reason FROM audit_entry WHERE subject = $1 ORDER BY entry_id`,
    [strange],
  )
  expect(rows).toEqual([
    { action: 'model.refused', reason: 'There is no such model.' },
    { action: 'model.approved', reason: 'It exists after all.' },
  ])

  // Refused again: no request reaches a hoster with it any more.
  await decide('refuse', 'A swindle.')
  await app.app.noticeChanges()
  expect(await ask(strange)).toBe('model_not_found')
})

test('ids of known open weights and of own servers need no approval', async () => {
  await offer('Qwen/Qwen3-8B', 'qwen3:8b', 'own-model', 'OWN-MODEL', strange)
  const { waiting, models } = await status()
  expect(waiting.map(({ model, state }) => [model, state])).toEqual([
    ['OWN-MODEL', 'unapproved'],
    [strange, 'unapproved'],
  ])
  expect(models.map(({ model }) => model)).toEqual(expect.arrayContaining(['Qwen/Qwen3-8B', 'qwen3:8b', 'own-model']))
})

test('the operator approves with a new hoster what it offers then, and nothing that it offers later', async () => {
  const { pool } = app.database
  await pool.query(`UPDATE hoster SET state = 'verified', active_since = NULL WHERE hoster_id = $1`, [hosterId])
  await offer(strange)
  const change = (to: 'active' | 'suspended') =>
    transaction(pool, sql => changeHosterState(sql, { ...commandLineActor, hosterId, to, reason: 'Reviewed.' }))
  await change('active')
  await app.app.noticeChanges()
  expect(await ask(strange)).toBe(hosterId)
  const { rows } = await pool.query(
    `SELECT detail -> 'approved_models' AS models FROM audit_entry WHERE action = 'hoster.state_changed' ORDER BY entry_id DESC LIMIT 1`,
  )
  expect(rows).toEqual([{ models: [strange] }])
  strange += '-turbo'
  await offer(strange)
  await change('suspended')
  await change('active')
  expect((await status()).waiting).toMatchObject([{ model: strange, state: 'unapproved' }])
})

test('only operators decide, with a reason and an id', async () => {
  const stranger = (await hosterKey(app, hosterId)).key
  expect(
    (await fetch(`${app.url}/console/api/operator/model-ids`, { headers: { authorization: `Bearer ${stranger}` } }))
      .status,
  ).toBe(401)
  for (const body of [
    { model: strange, decision: 'approve' },
    { model: strange, decision: 'maybe', reason: 'x' },
    { model: 'a b', decision: 'approve', reason: 'x' },
  ])
    expect((await operator.post('operator/model-ids', body)).status).toBe(400)
})
