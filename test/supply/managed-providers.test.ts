import { beforeAll, expect, test } from 'vitest'
import type {
  OperatorProviders,
  ProviderPresetList,
  ProviderTrial,
  ServedModels,
} from '../../src/wire/api/operator/providers.ts'
import { startTestApp } from '../harness/app.ts'
import { type BrowserClient, signedInMember, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({
  yaml: `
endpoints:
  - name: in-file
    kind: local
    base_url: http://127.0.0.1:9/v1
    models: [{ id: file-model, price_per_million_usd: { input: 1, output: 2 } }]
`,
}))
const customer = useCustomer(app)
let operator: BrowserClient
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
})

const KEY = 'sk-upstream-secret-1'
let names = 0
const entryFor = (name: string, more: object = {}, model: object = {}) => ({
  name,
  kind: 'cloud',
  base_url: upstream.baseUrl,
  models: [
    { id: `${name}-model`, upstream_model: 'test-model', price_per_million_usd: { input: '1', output: '2' }, ...model },
  ],
  ...more,
})
const newName = () => `provider-${++names}`
const send = async <T>(method: string, path: string, body: object): Promise<T> => {
  const response = await operator.send(method, `operator/${path}`, body)
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.json()) as T
}
const refused = async (method: string, path: string, body: object) =>
  readError(await operator.send(method, `operator/${path}`, body))
const add = async (settings: object, secrets: object = { api_key: KEY }) => {
  await send('POST', 'providers', { settings, secrets, reason: 'wanted' })
  await app.app.noticeChanges()
}
const listed = async (name: string) => {
  const { data } = (await (await operator.get('operator/providers')).json()) as OperatorProviders
  return data.find(provider => provider.name === name)
}
const chat = (model: string) =>
  app.chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 })

test('a provider is added with its key, sells at once, and its receipt names the version', async () => {
  const name = newName()
  await add(entryFor(name, {}, { cost_per_million_usd: { input: '0.5', output: '1' } }))
  const response = await chat(`${name}-model`)
  expect(response.status).toBe(200)
  expect(upstream.requests.at(-1)!.headers.authorization).toBe(`Bearer ${KEY}`)
  const { rows } = await app.database.pool.query(
    'SELECT endpoint_id, price_version FROM usage_event ORDER BY started_at DESC LIMIT 1',
  )
  expect(rows).toEqual([{ endpoint_id: name, price_version: 1 }])
  const shown = await listed(name)
  expect(shown).toMatchObject({
    ...{ origin: 'managed', is_enabled: true, version: 1, secrets: ['api_key'], reason: 'wanted', problem: null },
    models: [{ id: `${name}-model`, price: { input_usd_per_million: 1 }, cost: { output_usd_per_million: 1 } }],
  })
  expect(JSON.stringify(shown)).not.toContain(KEY)
})

test('a new price is a new version: what runs keeps the old one', async () => {
  const name = newName()
  await add(entryFor(name))
  upstream.respondWith(async (request, response) => {
    const settings = entryFor(name, {}, { price_per_million_usd: { input: '100', output: '200' } })
    await send('PUT', `providers/${name}`, { settings, version: 1, reason: 'dearer' })
    await app.app.noticeChanges()
    await answer()(request, response)
  })
  await chat(`${name}-model`)
  await chat(`${name}-model`)
  const { rows } = await app.database.pool.query<{ price_version: number; cost_nanos: bigint }>(
    'SELECT price_version, cost_nanos FROM usage_event WHERE endpoint_id = $1 ORDER BY started_at',
    [name],
  )
  expect(rows.map(({ price_version }) => price_version)).toEqual([1, 2])
  expect(rows[1]!.cost_nanos).toBe(rows[0]!.cost_nanos * 100n)
})

test('of two changes of the same version the second is refused', async () => {
  const name = newName()
  await add(entryFor(name))
  const change = (reason: string) =>
    operator.send('PUT', `operator/providers/${name}`, { settings: entryFor(name), version: 1, reason })
  const both = await Promise.all([change('one'), change('two')])
  expect(both.map(({ status }) => status).sort()).toEqual([200, 409])
})

test('a provider and a model are switched off and on, with the key that was stored', async () => {
  const name = newName()
  const second = {
    id: `${name}-other`,
    upstream_model: 'test-model',
    price_per_million_usd: { input: '1', output: '2' },
  }
  await add({ ...entryFor(name), models: [...entryFor(name).models, second] })
  const flip = async (body: object) => {
    await send('PATCH', `providers/${name}`, { reason: 'trouble', ...body })
    await app.app.noticeChanges()
    return [(await chat(`${name}-model`)).status, (await chat(`${name}-other`)).status]
  }
  expect(await flip({ is_enabled: false, model: `${name}-model` })).toEqual([404, 200])
  expect(await flip({ is_enabled: false })).toEqual([404, 404])
  expect(await flip({ is_enabled: true })).toEqual([404, 200])
  expect(await flip({ is_enabled: true, model: `${name}-model` })).toEqual([200, 200])
  expect(upstream.requests.at(-1)!.headers.authorization).toBe(`Bearer ${KEY}`)
  expect(await listed(name)).toMatchObject({ version: 5 })
})

test('a removed provider is gone with its key, and its name goes on with the next version', async () => {
  const name = newName()
  await add(entryFor(name))
  await send('DELETE', `providers/${name}`, { version: 1, reason: 'ended' })
  await app.app.noticeChanges()
  expect(await listed(name)).toBeUndefined()
  expect((await chat(`${name}-model`)).status).toBe(404)
  const { rows } = await app.database.pool.query('SELECT secrets_sealed FROM provider WHERE name = $1', [name])
  expect(rows).toEqual([{ secrets_sealed: null }])
  await add(entryFor(name))
  expect(await listed(name)).toMatchObject({ version: 3 })
})

test('the log has each change with its difference and no key', async () => {
  const name = newName()
  await add(entryFor(name))
  const settings = entryFor(name, {}, { price_per_million_usd: { input: '1', output: '3' } })
  await send('PUT', `providers/${name}`, {
    settings,
    secrets: { api_key: 'sk-upstream-secret-2' },
    version: 1,
    reason: 'dearer',
  })
  const { rows } = await app.database.pool.query<{ action: string; detail: object }>(
    "SELECT action, detail FROM audit_entry WHERE subject = $1 AND action LIKE 'provider.%' ORDER BY entry_id",
    [name],
  )
  expect(rows).toMatchObject([
    { action: 'provider.created', detail: { reason: 'wanted', version: 1, keys_replaced: ['api_key'] } },
    {
      action: 'provider.changed',
      detail: {
        ...{ reason: 'dearer', version: 2, keys_replaced: ['api_key'] },
        changes: [{ path: `models[${name}-model].price_per_million_usd.output`, before: '2', after: '3' }],
      },
    },
  ])
  expect(JSON.stringify(rows)).not.toContain('secret')
})

test('another node sells it too, and prefers what its file declares', async () => {
  const name = newName()
  await add(entryFor(name))
  const { rows } = await app.database.pool.query<{ key: Buffer }>('SELECT 1')
  expect(rows).toHaveLength(1)
  const problems: string[] = []
  const other = await startTestApp({
    database: app.database,
    onLog: line => problems.push(line),
    yaml: `endpoints:\n  - { name: ${name}, kind: local, base_url: "${upstream.baseUrl}", models: [{ id: own-model, price_per_million_usd: { input: 1, output: 2 } }] }`,
  })
  try {
    const models = async (url: string) => {
      const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
      return ((await response.json()) as { data: { id: string }[] }).data.map(({ id }) => id)
    }
    expect(await models(app.url)).toContain(`${name}-model`)
    expect(await models(other.url)).not.toContain(`${name}-model`)
    expect(await models(other.url)).toContain('own-model')
    // This node has another master key.
    expect(problems.join()).toContain('cannot be decrypted with this master key')
  } finally {
    await other.close()
  }
})

test('a server is asked for its models, with the limits and prices that are known', async () => {
  upstream.respondToProbesWith(
    status(200, { object: 'list', data: [{ id: 'test-model', context_length: 4_000 }, { id: 'second' }] }),
  )
  const { data } = await send<ServedModels>('POST', 'provider-models', {
    settings: { name: 'x', kind: 'cloud', base_url: upstream.baseUrl },
    secrets: { api_key: KEY },
  })
  expect(data).toEqual([
    { id: 'test-model', entry: { id: 'test-model', context_tokens: 4_000 }, has_price: false },
    { id: 'second', entry: { id: 'second' }, has_price: false },
  ])
  expect(upstream.probes.at(-1)!.headers.authorization).toBe(`Bearer ${KEY}`)
  upstream.respondToProbesWith(status(401, { error: { message: 'wrong key' } }))
  const asked = { settings: { kind: 'cloud', base_url: upstream.baseUrl } }
  expect((await refused('POST', 'provider-models', asked)).message).toContain('refuses the key')
})

test('a trial sends one request and says what it cost, or what the server said', async () => {
  const name = newName()
  const settings = entryFor(name, {}, { cost_per_million_usd: { input: '1000', output: '1000' } })
  const order = { settings, secrets: { api_key: KEY }, model: `${name}-model` }
  const tried = await send<ProviderTrial>('POST', 'provider-trials', order)
  expect(tried).toMatchObject({ problem: null, text: expect.stringMatching(/./) })
  expect(tried.cost_usd).toBeCloseTo((tried.input_tokens! + tried.output_tokens!) / 1_000, 9)
  upstream.respondWith(status(404, { error: { message: 'no such model here' } }))
  expect(await send('POST', 'provider-trials', order)).toMatchObject({
    problem: expect.stringMatching(/./),
    text: null,
  })
  const { rows } = await app.database.pool.query('SELECT FROM usage_event WHERE endpoint_id = $1', [name])
  expect(rows).toEqual([])
})

test.each([
  [
    { base_url: 'https://api.example.com/v1/chat/completions' },
    '"base_url" ends in /chat/completions',
    'settings.base_url',
  ],
  [{ models: [{ id: 'a' }] }, 'a model without a price cannot be sold', 'settings.models[0].price_per_million_usd'],
  [{ models: [] }, '"models" is empty', 'settings.models'],
  [{ name: 'Upper' }, '"name" is "Upper"', 'settings.name'],
  [{ name: 'demo' }, 'built-in endpoint', 'settings.name'],
  [{ name: 'in-file' }, 'declared in switchyard.yaml', 'settings.name'],
  [{ api_key: 'in-settings' }, 'is a key', 'settings'],
  [{ unknown_key: 1 }, '"unknown_key" is not a setting', 'settings.unknown_key'],
  [{ base_url: 'http://169.254.169.254/v1' }, 'network link', 'settings.base_url'],
  [{ base_url: 'http://[::ffff:169.254.169.254]/v1' }, 'network link', 'settings.base_url'],
  [{ base_url: 'http://metadata.google.internal./v1' }, 'network link', 'settings.base_url'],
  [{ base_url: '$' + '{SWITCHYARD_MASTER_KEY}' }, 'must be an http', 'settings.base_url'],
])('settings that cannot work are refused at their field: %j', async (wrong, text, param) => {
  const error = await refused('POST', 'providers', { settings: entryFor(newName(), wrong), reason: 'wanted' })
  expect(error).toMatchObject({ code: 'invalid_value', param })
  expect(error.message).toContain(text)
})

test('the key of a service account is its JSON: a path would be read on the machine of the gateway', async () => {
  const settings = entryFor(newName())
  const secrets = { google_service_account: '/etc/hostname' }
  const asked = { settings, secrets, model: settings.models[0]!.id }
  expect((await refused('POST', 'provider-trials', asked)).message).toContain('must be the JSON')
  expect((await refused('POST', 'providers', { settings, secrets, reason: 'x' })).message).toContain('must be the JSON')
})

test.each([['http://127.0.0.1:9/v1'], ['same host, another path']])(
  'a stored key is not sent to another address: %s',
  async address => {
    const name = newName()
    await add(entryFor(name))
    const base_url = address.startsWith('http') ? address : `${upstream.baseUrl}/tenant`
    const elsewhere = entryFor(name, { base_url })
    for (const [method, path, body] of [
      ['PUT', `providers/${name}`, { version: 1, reason: 'moved' }],
      ['POST', 'provider-models', { name }],
      ['POST', 'provider-trials', { name, model: `${name}-model` }],
    ] as const)
      expect((await refused(method, path, { settings: elsewhere, ...body })).message).toContain('Send the key again')
  },
)

test('there are presets, and only operators change providers', async () => {
  const presets = (await (await operator.get('operator/provider-presets')).json()) as ProviderPresetList
  expect(presets.data.map(({ id }) => id)).toEqual(expect.arrayContaining(['openai', 'xai', 'azure', 'vllm', 'other']))
  const { browser } = await signedInMember(app, customer.customerId)
  const { browser: auditor, personId } = await signedInOperator(app)
  await app.database.pool.query("UPDATE person SET installation_role = 'auditor' WHERE person_id = $1", [personId])
  const body = { settings: entryFor(newName()), reason: 'wanted' }
  for (const each of [browser, auditor])
    expect(await readError(await each.send('POST', 'operator/providers', body))).toMatchObject({
      code: 'role_not_allowed',
    })
  expect((await auditor.get('operator/providers')).status).toBe(200)
})
