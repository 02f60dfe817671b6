import { beforeAll, expect, test } from 'vitest'
import { fixedKey } from '../../src/base/domain/sealing-keys.ts'
import { loadPriceLibrary } from '../../src/market/supply/providers/price-library.ts'
import { createModelRefresh } from '../../src/operator/model-refresh.ts'
import { readEndpoint } from '../../src/start/config/read-endpoint.ts'
import type { OperatorProviders } from '../../src/wire/api/operator/providers.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const masterKey = Buffer.alloc(32, 2)
const upstream = useUpstream()
const app = useTestApp({ masterKey })
const customer = useCustomer(app)
let operator: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})

const serves = (...ids: string[]) => upstream.respondToProbesWith(status(200, { data: ids.map(id => ({ id })) }))
const add = async (name: string, rules: readonly object[]) => {
  const settings = {
    ...{ name, kind: 'cloud', base_url: upstream.baseUrl, model_rules: rules },
    models: [{ id: `${name}-model`, price_per_million_usd: { input: '1', output: '2' } }],
  }
  const added = await operator.send('POST', 'operator/providers', { settings, secrets: { api_key: 'k' }, reason: 'x' })
  expect(added.status).toBe(200)
}
const refresh = (name: string) => operator.send('POST', `operator/providers/${name}/refresh`, {})
const shown = async (name: string) => {
  const { data } = (await (await operator.get('operator/providers')).json()) as OperatorProviders
  return data.find(provider => provider.name === name)!
}
const entries = async (name: string) => {
  const { rows } = await app.database.pool.query(
    'SELECT action, person_id IS NOT NULL AS "byPerson", detail FROM audit_entry WHERE subject = $1 ORDER BY entry_id',
    [name],
  )
  return rows
}
/** As the job runs it. */
const refreshAll = () =>
  createModelRefresh({
    pool: app.database.pool,
    masterKeys: fixedKey(masterKey),
    readEndpoint,
    library: loadPriceLibrary,
    clock: { epochMs: Date.now },
    log: { warn: () => {} },
  }).refreshAll()

test('a new model that a rule applies is sold with its markup, by the job and with an audit entry', async () => {
  await add('rules-apply', [
    { match: 'gpt-4*', except: ['*mini'], price_percent: 120, price_list: 'openai', action: 'apply' },
  ])
  serves('rules-apply-model', 'gpt-4o', 'gpt-4o-mini', 'gpt-4-unheard-of')
  await refreshAll()
  const provider = await shown('rules-apply')
  expect(provider).toMatchObject({ version: 2, reason: 'New models by rule.', ask_problem: null, secrets: ['api_key'] })
  expect(provider.asked_at).not.toBeNull()
  const [, added, ...more] = provider.models
  expect(more).toEqual([])
  expect(added!.id).toBe('gpt-4o')
  expect(added!.price.input_usd_per_million).toBeCloseTo(added!.cost!.input_usd_per_million * 1.2, 9)
  const [, entry] = await entries('rules-apply')
  expect(entry).toMatchObject({
    action: 'provider.changed',
    byPerson: false,
    detail: { version: 2, added: ['gpt-4o'] },
  })
  await app.app.noticeChanges()
  const body = { model: 'gpt-4o', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await app.chat(customer, body)).status).toBe(200)
  // Without a price it is never sold, and nothing changes again.
  expect((await app.chat(customer, { ...body, model: 'gpt-4-unheard-of' })).status).toBe(404)
  await refreshAll()
  expect((await shown('rules-apply')).version).toBe(2)
  expect(await entries('rules-apply')).toHaveLength(2)
})

test('a new model that a rule proposes waits for an operator', async () => {
  await add('rules-propose', [{ match: '*', price_list: 'openai' }])
  serves('gpt-4.1')
  const answer = await refresh('rules-propose')
  expect(await answer.json()).toEqual({ applied: [], proposed: ['gpt-4.1'] })
  const { version, proposed_models: proposed } = await shown('rules-propose')
  expect([version, proposed.map(({ id }) => id)]).toEqual([1, ['gpt-4.1']])
  expect(proposed[0]!.entry).toMatchObject({ price_per_million_usd: { input: expect.stringMatching(/^[1-9]/) } })
  const body = { model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
  expect((await app.chat(customer, body)).status).toBe(404)
  expect((await entries('rules-propose'))[1]).toMatchObject({
    ...{ action: 'provider.models_proposed', byPerson: true, detail: { models: ['gpt-4.1'] } },
  })
  await refresh('rules-propose')
  expect(await entries('rules-propose')).toHaveLength(2)
})

test('a server that does not answer keeps its models, and the page says why', async () => {
  await add('rules-silent', [{ match: '*', price_list: 'openai' }])
  upstream.respondToProbesWith(status(401, { error: { message: 'wrong key' } }))
  expect((await readError(await refresh('rules-silent'))).message).toContain('refuses the key')
  await refreshAll()
  const silent = await shown('rules-silent')
  expect(silent).toMatchObject({
    version: 1,
    proposed_models: [],
    ask_problem: expect.stringContaining('refuses the key'),
  })
  expect(silent.asked_at).not.toBeNull()
})
