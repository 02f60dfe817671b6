import { expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { plainAccess } from '../../src/base/domain/caller.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { createAuthenticator } from '../../src/identity/auth/authenticator.ts'
import { activateHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { addHoster } from '../../src/market/supply/hosters/add-hoster.ts'
import { createCustomer } from '../../src/money/accounts/customers.ts'
import { createPriceGroupReader } from '../../src/money/accounts/price-groups.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import { announce } from '../../src/start/announce.ts'
import { limitsOfTier, loadConfig } from '../../src/start/config/config.ts'
import { ensureFirstRun } from '../../src/start/first-run.ts'
import { curlLine, exampleModel, welcome } from '../../src/start/welcome.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { testFirstStart } from './first-start.ts'

const config = loadConfig({ env: { SWITCHYARD_INIT_EMAIL: 'op@example.com' }, cwd: '/nowhere' })

async function onNewDatabase(work: (database: TestDatabase) => Promise<void>): Promise<void> {
  const database = await createTestDatabase()
  await work(database).finally(() => database.drop())
}

test('among concurrent starts, one creates operator, customer, credit and a working key', () =>
  onNewDatabase(async ({ pool }) => {
    const runs = await Promise.all(Array.from({ length: 8 }, () => ensureFirstRun({ pool, config })))
    const [created, ...others] = runs.filter(run => run !== undefined)
    expect(others).toEqual([])
    expect(created).toMatchObject({ email: 'op@example.com', creditNanos: 5_000_000_000n })
    const counts = await pool.query(`SELECT
      (SELECT count(*)::int FROM customer) AS customers, (SELECT count(*)::int FROM api_key) AS keys,
      (SELECT count(*)::int FROM person WHERE installation_role = 'operator') AS operators,
      (SELECT posted_nanos FROM balance) AS balance`)
    expect(counts.rows).toEqual([{ customers: 1, keys: 1, operators: 1, balance: 5_000_000_000n }])
    const authenticator = createAuthenticator({
      sql: pool,
      clock: systemClock,
      limitsOf: tier => limitsOfTier(config, tier),
      findPrices: createPriceGroupReader(pool),
      onAccessChange: () => () => {},
    })
    const caller = await authenticator.authenticate(['Authorization', `Bearer ${created!.apiKey}`])
    expect(caller).toMatchObject({
      customerId: created!.customerId,
      // The operator's own customer: trying out does not use up its limits.
      accountTier: 'standard',
      access: plainAccess,
      limits: config.accountTiers.standard,
    })
    expect((await audit(pool)).filter(({ violations }) => violations > 0)).toEqual([])
  }))

test('an existing customer becomes the first customer and gets no second credit', () =>
  onNewDatabase(async ({ pool }) => {
    const before = await transaction(pool, sql => createCustomer(sql, config, { email: 'OP@example.com' }))
    const created = await ensureFirstRun({ pool, config })
    expect(created!.customerId).toBe(before!.customerId)
    expect((await pool.query('SELECT posted_nanos FROM balance')).rows).toEqual([{ posted_nanos: 5_000_000_000n }])
  }))

test('the welcome shows the key on the first start and no secret afterwards', () => {
  const created = {
    email: 'op@example.com',
    customerId: 'c',
    apiKey: 'sk-sy-shown-once',
    creditNanos: 5_000_000_000n,
    welcomePath: '/welcome#once',
  }
  const finding = {
    name: 'ollama',
    kind: 'local',
    baseUrl: 'http://127.0.0.1:11434/v1',
    models: ['qwen3'],
    chatModels: ['qwen3'],
    note: 'offered.',
  } as const
  const first = welcome({ config, port: 8080, created, findings: [finding], hosters: [] })
  expect(first).toContain(curlLine('http://127.0.0.1:8080', created.apiKey, 'qwen3'))
  expect(first).toContain("create({ model: 'qwen3', messages")
  expect(first).toContain("new OpenAI({ baseURL: 'http://127.0.0.1:8080/v1', apiKey: 'sk-sy-shown-once' })")
  expect(first).toContain('5.00 USD')
  expect(first).toContain('http://127.0.0.1:8080/welcome#once\n')
  const acme = { name: 'acme', baseUrl: 'https://models.acme.dev/v1', models: ['llama', 'qwen3'] }
  const second = welcome({ config, port: 8080, created: undefined, findings: [finding], hosters: [acme] })
  expect(second).toContain('hoster acme (https://models.acme.dev/v1): llama, qwen3')
  expect(second).toContain('http://127.0.0.1:8080/v1')
  expect(second).toContain('found ollama (http://127.0.0.1:11434/v1): qwen3')
  expect(second).not.toContain('sk-sy-')
})

test('examples name the best model: configured, else local, else of a cloud, else the demo', () => {
  const server = (kind: 'local' | 'cloud', chatModels: string[], others: string[] = []) => ({
    name: kind,
    kind,
    baseUrl: 'http://a',
    models: [...others, ...chatModels],
    chatModels,
    note: '',
  })
  const cloud = server('cloud', ['gpt'])
  expect(exampleModel(config)).toBe('demo')
  expect(exampleModel(config, [server('local', []), cloud])).toBe('gpt')
  expect(exampleModel(config, [cloud, server('local', ['qwen3', 'gemma'])])).toBe('qwen3')
  expect(exampleModel(config, [server('local', ['qwen3'], ['bge-m3'])])).toBe('qwen3')
  expect(exampleModel(config, [server('local', [], ['bge-m3'])])).toBe('demo')
  const endpoints = loadConfig({ env: { SWITCHYARD_CONFIG: 'switchyard.example.yaml' }, cwd: '.' }).endpoints
  expect(exampleModel({ ...config, endpoints }, [cloud])).toBe(endpoints[0]!.models[0]!.id)
  const models = endpoints[0]!.models.map(model => ({ ...model, features: ['embeddings' as const] }))
  expect(exampleModel({ ...config, endpoints: [{ ...endpoints[0]!, models }] }, [cloud])).toBe('gpt')
})

test('a start lists the hosters that it offers, without those at refused addresses', () =>
  onNewDatabase(async ({ pool, connection }) => {
    const masterKeys = new MasterKeys([Buffer.alloc(32, 7)])
    for (const [name, baseUrl] of [
      ['acme', 'https://models.acme.dev/v1'],
      ['inside', 'http://10.0.0.5/v1'],
    ] as const) {
      const price = { inputPicoPerToken: 1n, outputPicoPerToken: 1n }
      const tokens = { contextTokens: 1000, maxOutputTokens: 1000 }
      const model = { modelId: 'llama', upstreamModel: 'llama', price, ...tokens, features: [] }
      const hoster = { name, baseUrl, models: [model], trustScore: 0.5, shareBps: 8000 }
      await addHoster(pool, hoster, { masterKeys, allowPrivateUrls: true })
      await activateHoster(pool, name)
    }
    const written: string[] = []
    const write = vi.spyOn(process.stdout, 'write').mockImplementation(text => written.push(String(text)) > 0)
    try {
      await announce({ config, owner: connection, masterKeys, port: 8080, findings: [] })
    } finally {
      write.mockRestore()
    }
    expect(written.join('')).toContain('hoster acme (https://models.acme.dev/v1): llama')
    expect(written.join('')).not.toContain('inside')
  }))

test.each([
  [{ HOST: '0.0.0.0' }, 'http://127.0.0.1:8080/v1'],
  [{ HOST: '::' }, 'http://[::1]:8080/v1'],
  [{ HOST: '::1' }, 'http://[::1]:8080/v1'],
  [{ HOST: 'gw.local' }, 'http://gw.local:8080/v1'],
])('the welcome of a server on %j names %s', (env, address) => {
  const listening = loadConfig({ env, cwd: '/nowhere' })
  expect(welcome({ config: listening, port: 8080, created: undefined, findings: [], hosters: [] })).toContain(address)
})

testFirstStart(() => ({}))
