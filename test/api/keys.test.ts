import { describe, expect, test } from 'vitest'
import { hasValidChecksum } from '../../src/identity/auth/api-key.ts'
import { startTestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: 'reports: { requests_per_minute: 1000 }',
}))

const manager = () => gateway.customer({ key: { scopes: ['manage'] } })
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 100 }

function send({ key }: TestCustomer, method: string, path: string, body?: unknown): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
}

/** Distinct model ids of this length. */
const listOf = (count: number, length: number) =>
  Array.from({ length: count }, (_, n) => String(n).padStart(length, 'm'))

const json = async (response: Promise<Response>) => {
  const answered = await response
  expect(answered.status).toBe(200)
  return (await answered.json()) as Record<string, unknown> & { id: string; key: string; data: { id: string }[] }
}

describe('200', () => {
  test('a key is created, shown once, usable, listed without its secret, and deleted', async () => {
    const customer = await manager()
    const made = await json(
      send(customer, 'POST', '/v1/keys', {
        name: ' bot ',
        spend_limit_usd: 0.25,
        limit_reset: 'weekly',
        allowed_models: ['test-model', 'test-model'],
        expires_at: '2099-01-31T12:00:00+02:00',
        scopes: [],
        label: null,
      }),
    )
    const { key, ...shown } = made
    expect(hasValidChecksum(key)).toBe(true)
    expect(shown).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      object: 'key',
      name: 'bot',
      hint: `${key.slice(0, 10)}…${key.slice(-4)}`,
      created_at: expect.any(String),
      expires_at: '2099-01-31T10:00:00.000Z',
      scopes: [],
      allowed_models: ['test-model'],
      limit_usd: 0.25,
      limit_reset: 'weekly',
      spent_usd: 0,
      limit_resets_at: expect.stringMatching(/T00:00:00.000Z$/),
      last_used_on: null,
      paused_at: null,
      former_key: null,
      is_playground: false,
      made_by: null,
      label: null,
      defaults: {},
      record_content: false,
      usage: { today_usd: 0, week_usd: 0, month_usd: 0, total_usd: 0 },
    })
    const bot = { customerId: customer.customerId, key }
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    const tooLong = [{ role: 'user', content: 'x'.repeat(300_000) }]
    expect(await readError(await gateway.chat(bot, { ...hello, messages: tooLong }))).toMatchObject({ status: 400 })

    const list = await send(customer, 'GET', '/v1/keys')
    const text = await list.text()
    expect(text).not.toContain(key)
    const { usage: _, spent_usd: __, last_used_on: ___, ...lasting } = shown
    expect(JSON.parse(text).data).toMatchObject([lasting, { name: 'test', scopes: ['manage'], limit_usd: null }])

    const deleted = { id: made.id, object: 'key', deleted: true }
    expect(await json(send(customer, 'DELETE', `/v1/keys/${made.id.toUpperCase()}`))).toEqual(deleted)
    await gateway.app.noticeChanges()
    expect((await gateway.chat(bot, hello)).status).toBe(401)
    // A deleted key does not exist any more, like a deleted alert rule.
    const again = await send(customer, 'DELETE', `/v1/keys/${made.id}`)
    expect(await readError(again)).toMatchObject({ status: 404, code: 'not_found' })
    expect((await json(send(customer, 'GET', '/v1/keys'))).data).toHaveLength(1)
  })

  test('only the name of a key is required', async () => {
    const made = await json(send(await manager(), 'POST', '/v1/keys', { name: 'plain', scopes: null }))
    expect(made).toMatchObject({
      expires_at: null,
      scopes: [],
      allowed_models: null,
      limit_usd: null,
      limit_reset: 'none',
    })
  })

  test('limits are exact, as numbers and as strings', async () => {
    const customer = await manager()
    const limits = [0.1, 1e-9, 999_999_999, '12.000000001', 123_456.1]
    for (const spend_limit_usd of limits) {
      const made = await json(send(customer, 'POST', '/v1/keys', { name: 'exact', spend_limit_usd }))
      expect(made.limit_usd).toBe(Number(spend_limit_usd))
    }
    const { rows } = await gateway.database.pool.query(
      "SELECT spend_limit_nanos AS nanos FROM api_key WHERE customer_id = $1 AND name = 'exact' ORDER BY created_at",
      [customer.customerId],
    )
    expect(rows.map(({ nanos }) => nanos)).toEqual([
      100_000_000n,
      1n,
      999_999_999_000_000_000n,
      12_000_000_001n,
      123_456_100_000_000n,
    ])
  })

  test('the list of models can be long', async () => {
    const allowed_models = listOf(32, 256)
    const made = await json(send(await manager(), 'POST', '/v1/keys', { name: 'long', allowed_models }))
    expect(made.allowed_models).toEqual(allowed_models)
  })

  test('GET /v1/key reports the limits and the usage of the calling key only', async () => {
    const limit = { limitNanos: 1_000_000n, reset: 'monthly' } as const
    const limited = await gateway.customer({ key: { name: 'limited', limit, allowedModels: ['test-model'] } })
    const plain = await gateway.anotherKey(limited, { name: 'plain' })
    upstream.always(answer({ usage: usageOf(50, 50) }))
    for (const caller of [limited, plain, plain]) expect((await gateway.chat(caller, hello)).status).toBe(200)
    upstream.always(answer())
    const now = new Date()
    expect(await json(gateway.get(limited, '/v1/key'))).toEqual({
      id: expect.any(String),
      object: 'key',
      name: 'limited',
      hint: expect.stringMatching(/^sk-sy-.{4}….{4}$/),
      created_at: expect.any(String),
      expires_at: null,
      scopes: [],
      allowed_models: ['test-model'],
      limit_usd: 0.001,
      limit_reset: 'monthly',
      spent_usd: 0.00015,
      last_used_on: now.toISOString().slice(0, 10),
      paused_at: null,
      former_key: null,
      is_playground: false,
      made_by: null,
      label: null,
      member_limit: null,
      defaults: {},
      record_content: false,
      limit_remaining_usd: 0.00085,
      limit_resets_at: new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)).toISOString(),
      customer: expect.stringContaining('@example.com'),
      tier: 'standard',
      usage: { today_usd: 0.00015, week_usd: 0.00015, month_usd: 0.00015, total_usd: 0.00015 },
      rate_limits: {
        limit_per_minute: expect.any(Number),
        limit_per_day: expect.any(Number),
        remaining_this_minute: expect.any(Number),
        remaining_today: expect.any(Number),
      },
    })
    expect(await json(gateway.get(plain, '/v1/key'))).toMatchObject({
      name: 'plain',
      limit_usd: null,
      limit_remaining_usd: null,
      limit_resets_at: null,
      usage: { today_usd: 0.0003, total_usd: 0.0003 },
    })
  })

  test('GET /v1/key reports usage by day, week and month', async () => {
    const caller = await gateway.customer()
    const { id } = await json(gateway.get(caller, '/v1/key'))
    const past = `
      INSERT INTO usage_key_day SELECT $1, $2, (now() AT TIME ZONE 'UTC')::date - ago, shard, 1, 1000000000
      FROM generate_series(0, 40) AS ago, generate_series(1, 2) AS shard`
    await gateway.database.pool.query(past, [caller.customerId, id])
    const today = new Date()
    const weekday = (today.getUTCDay() + 6) % 7
    expect((await json(gateway.get(caller, '/v1/key'))).usage).toEqual({
      today_usd: 2,
      week_usd: 2 * (weekday + 1),
      month_usd: 2 * today.getUTCDate(),
      total_usd: 82,
    })
    await gateway.database.pool.query('DELETE FROM usage_key_day WHERE customer_id = $1', [caller.customerId])
  })
})

describe('PATCH /v1/keys/{id}', () => {
  /** Creates a key. Returns its id, and a caller with it. */
  async function createKey(customer: TestCustomer, fields: object) {
    const { id, key } = await json(send(customer, 'POST', '/v1/keys', { name: 'bot', ...fields }))
    return { id, bot: { customerId: customer.customerId, key } }
  }
  const change = async (customer: TestCustomer, id: string, body: object) => {
    const changed = await json(send(customer, 'PATCH', `/v1/keys/${id}`, body))
    await gateway.app.noticeChanges()
    return changed
  }
  const audit = async () => {
    const { audit } = await import('../../src/money/ledger/audit/audit.ts')
    return (await audit(gateway.database.pool)).filter(({ violations }) => violations > 0)
  }

  test('changes the fields of the body and no others', async () => {
    const customer = await manager()
    const fields = { spend_limit_usd: 1, limit_reset: 'monthly', allowed_models: ['test-model'] }
    const { id, bot } = await createKey(customer, fields)
    const kept = { limit_usd: 1, limit_reset: 'monthly', allowed_models: ['test-model'], scopes: [], expires_at: null }
    expect(await change(customer, id.toUpperCase(), { name: 'renamed' })).toMatchObject({
      ...kept,
      id,
      name: 'renamed',
    })
    const models = await change(customer, id, { allowed_models: ['other'], expires_at: '2099-01-31T12:00:00Z' })
    expect(models).toMatchObject({ name: 'renamed', allowed_models: ['other'], expires_at: '2099-01-31T12:00:00.000Z' })
    expect((await gateway.chat(bot, hello)).status).toBe(403)
    const open = await change(customer, id, { allowed_models: null, expires_at: null, scopes: ['manage'] })
    expect(open).toMatchObject({ allowed_models: null, expires_at: null, scopes: ['manage'], limit_usd: 1 })
    expect((await send(bot, 'GET', '/v1/keys')).status).toBe(200)
    expect(await change(customer, id, { spend_limit_usd: null })).toMatchObject({
      limit_usd: null,
      limit_reset: 'none',
    })
    const listed = (await json(send(customer, 'GET', '/v1/keys'))).data.find(key => key.id === id)
    expect(listed).toMatchObject({ name: 'renamed', limit_usd: null, scopes: ['manage'] })
  })

  test('a raised or lowered limit counts what the window has spent', async () => {
    const customer = await manager()
    const { id, bot } = await createKey(customer, { spend_limit_usd: 0.0003, limit_reset: 'monthly' })
    upstream.always(answer({ usage: usageOf(50, 50) }))
    // Each holds at most 0.0003 USD and costs 0.00015 USD.
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    expect((await gateway.chat(bot, hello)).status).toBe(402)
    expect(await change(customer, id, { spend_limit_usd: 0.0006 })).toMatchObject({ limit_reset: 'monthly' })
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    await change(customer, id, { spend_limit_usd: '0.0001' })
    expect((await gateway.chat(bot, hello)).status).toBe(402)
    expect(await json(gateway.get(bot, '/v1/key'))).toMatchObject({ limit_usd: 0.0001, limit_remaining_usd: 0 })
    expect(await audit()).toEqual([])
    upstream.always(answer())
  })

  test('a limit that is new, or resets at other times, counts what its window has spent', async () => {
    const customer = await manager()
    const { id, bot } = await createKey(customer, {})
    upstream.always(answer({ usage: usageOf(50, 50) }))
    // Each holds at most 0.0003 USD and costs 0.00015 USD.
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    await expect.poll(() => gateway.usage(bot)).toHaveLength(2)
    const capped = await change(customer, id, { spend_limit_usd: 0.0005, limit_reset: 'monthly' })
    expect(capped).toMatchObject({ limit_usd: 0.0005, spent_usd: 0.0003 })
    expect((await gateway.chat(bot, hello)).status).toBe(402)
    await change(customer, id, { spend_limit_usd: 0.0006 })
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    expect(await change(customer, id, { limit_reset: 'daily' })).toMatchObject({ spent_usd: 0.00045 })
    expect((await gateway.chat(bot, hello)).status).toBe(402)
    // Nothing counts twice when a limit goes and comes.
    await change(customer, id, { spend_limit_usd: null })
    expect(await change(customer, id, { spend_limit_usd: 1, limit_reset: 'monthly' })).toMatchObject({
      spent_usd: 0.00045,
    })
    expect(await audit()).toEqual([])
    await change(customer, id, { spend_limit_usd: null })
    expect((await gateway.chat(bot, hello)).status).toBe(200)
    const usage = async () => (await json(send(customer, 'GET', '/v1/keys'))).data.find(key => key.id === id)
    // Charges are committed shortly after their answers.
    await expect.poll(usage).toMatchObject({ usage: { today_usd: 0.0006, month_usd: 0.0006, total_usd: 0.0006 } })
    expect(await audit()).toEqual([])
    upstream.always(answer())
  })

  test.each([
    [{}, null, /changes nothing. The fields are name, spend_limit_usd/],
    [{ name: null }, 'name', /1 to 200 characters/],
    [{ spend_limit_usd: 0 }, 'spend_limit_usd', /above zero/],
    [{ limit_reset: 'daily' }, 'limit_reset', /spend_limit_usd/],
    [{ spend_limit_usd: null, limit_reset: 'daily' }, 'limit_reset', /spend_limit_usd/],
    [{ allowed_models: [] }, 'allowed_models', /1 to 256/],
    [{ expires_at: '2020-01-31T12:00:00Z' }, 'expires_at', /in the future/],
    [{ key: 'sk-sy-x' }, 'key', /The fields are name/],
  ])('400 for %j', async (body, param, message) => {
    const customer = await manager()
    const { id } = await createKey(customer, {})
    const error = await readError(await send(customer, 'PATCH', `/v1/keys/${id}`, body))
    expect(error).toMatchObject({ status: 400, code: 'invalid_value', param, message: expect.stringMatching(message) })
  })
})

describe('400', () => {
  test.each([
    ['', 'invalid_json', null, /The body is empty/],
    ['{"name":', 'invalid_json', null, /not valid JSON/],
    [[], 'invalid_json', null, /one JSON object/],
    [{}, 'missing_parameter', 'name', /"name" is required/],
    [{ name: '  ' }, 'invalid_value', 'name', /1 to 200 characters/],
    [{ name: 'a\u0007' }, 'invalid_value', 'name', /control characters/],
    [{ name: 'a\u202eb' }, 'invalid_value', 'name', /text direction marks/],
    [{ name: 'a', spend_limit: 5 }, 'invalid_value', 'spend_limit', /The fields are name, spend_limit_usd/],
    [{ name: 'a', spend_limit_usd: 0 }, 'invalid_value', 'spend_limit_usd', /above zero/],
    [{ name: 'a', spend_limit_usd: -1 }, 'invalid_value', 'spend_limit_usd', /above zero/],
    [{ name: 'a', spend_limit_usd: 1e300 }, 'invalid_value', 'spend_limit_usd', /below a billion/],
    [{ name: 'a', spend_limit_usd: 0.0000000001 }, 'invalid_value', 'spend_limit_usd', /9 decimals/],
    [{ name: 'a', spend_limit_usd: 'five' }, 'invalid_value', 'spend_limit_usd', /got "five"/],
    [{ name: 'a', spend_limit_usd: true }, 'invalid_value', 'spend_limit_usd', /got true/],
    [{ name: 'a', limit_reset: 'daily' }, 'invalid_value', 'limit_reset', /spend_limit_usd/],
    [{ name: 'a', spend_limit_usd: 1, limit_reset: 'hourly' }, 'invalid_value', 'limit_reset', /none, daily/],
    [{ name: 'a', allowed_models: [] }, 'invalid_value', 'allowed_models', /1 to 256/],
    [{ name: 'a', allowed_models: listOf(257, 1) }, 'invalid_value', 'allowed_models', /1 to 256/],
    [{ name: 'a', allowed_models: listOf(32, 257) }, 'invalid_value', 'allowed_models[0]', /a model id/],
    [{ name: 'a', allowed_models: listOf(33, 256) }, 'invalid_value', 'allowed_models', /at most 8192 characters/],
    [{ name: 'a', allowed_models: ['m', ''] }, 'invalid_value', 'allowed_models[1]', /a model id/],
    [{ name: 'a', allowed_models: ['m', 'auto'] }, 'invalid_value', 'allowed_models[1]', /not `auto`/],
    [{ name: 'a', allowed_models: ['a\u202eb'] }, 'invalid_value', 'allowed_models[0]', /text direction marks/],
    [{ name: 'a', allowed_models: ['\u0000'] }, 'invalid_value', 'allowed_models[0]', /no control characters/],
    [{ name: 'a', expires_at: '2099-02-29T12:00:00Z' }, 'invalid_value', 'expires_at', /2030-01-31/],
    [{ name: 'a', expires_at: 'tomorrow' }, 'invalid_value', 'expires_at', /2030-01-31/],
    [{ name: 'a', expires_at: '2020-01-31T12:00:00Z' }, 'invalid_value', 'expires_at', /in the future/],
    [{ name: 'a', scopes: ['admin'] }, 'invalid_value', 'scopes[0]', /one of manage/],
  ])('%j is %s', async (body, code, param, message) => {
    const error = await readError(await send(await manager(), 'POST', '/v1/keys', body))
    expect(error).toMatchObject({ status: 400, code, param, message: expect.stringMatching(message) })
  })

  test('a customer can have at most 1,000 keys', async () => {
    const customer = await manager()
    await gateway.database.pool.query(
      `INSERT INTO api_key (key_id, customer_id, name, key_hash, hint)
       SELECT gen_random_uuid(), $1, 'many', sha256((n::text || $2)::bytea), 'many' FROM generate_series(1, 998) n`,
      [customer.customerId, customer.customerId],
    )
    const answers = await Promise.all(
      Array.from({ length: 4 }, () => send(customer, 'POST', '/v1/keys', { name: 'last' })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400, 400, 400])
  })
})

test('401 without a key, 403 insufficient_scope without the scope manage', async () => {
  const plain = await gateway.customer()
  for (const [method, path, body] of [
    ['GET', '/v1/keys'],
    ['POST', '/v1/keys', { name: 'x' }],
    ['PATCH', '/v1/keys/00000000-0000-7000-8000-000000000001', { name: 'x' }],
    ['DELETE', '/v1/keys/00000000-0000-7000-8000-000000000001'],
  ] as const) {
    expect((await fetch(gateway.url + path, { method })).status).toBe(401)
    const error = await readError(await send(plain, method, path, body))
    expect(error).toMatchObject({ status: 403, type: 'permission_error', code: 'insufficient_scope' })
  }
  expect((await fetch(`${gateway.url}/v1/key`)).status).toBe(401)
})

test("404 for another customer's key and for an unknown id", async () => {
  const [mine, theirs] = [await manager(), await manager()]
  const { id } = await json(send(theirs, 'POST', '/v1/keys', { name: 'theirs' }))
  for (const unknown of [id, '00000000-0000-7000-8000-000000000001', 'x', 'a/b', "'; --", 'x'.repeat(400)]) {
    for (const [method, body] of [['DELETE'], ['PATCH', { name: 'x' }]] as const) {
      const error = await readError(await send(mine, method, `/v1/keys/${encodeURIComponent(unknown)}`, body))
      expect(error).toMatchObject({ status: 404, code: 'not_found' })
    }
  }
  expect((await json(send(mine, 'GET', '/v1/keys'))).data.map(key => key.id)).not.toContain(id)
  expect((await json(send(theirs, 'GET', '/v1/keys'))).data.map(key => key.id)).toContain(id)
})

test('405, 413 and 415 like every other endpoint', async () => {
  const customer = await manager()
  const wrongMethod = await send(customer, 'POST', '/v1/key', { name: 'x' })
  expect([wrongMethod.status, wrongMethod.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
  expect((await send(customer, 'DELETE', '/v1/keys')).status).toBe(405)
  const tooLarge = await send(customer, 'POST', '/v1/keys', { name: 'x'.repeat(4 * 1024 * 1024) })
  expect(await readError(tooLarge)).toMatchObject({ status: 413, code: 'request_too_large' })
  const text = await fetch(`${gateway.url}/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'text/plain' },
    body: '{"name":"x"}',
  })
  expect(await readError(text)).toMatchObject({ status: 415, param: 'Content-Type' })
})

test('429: the key endpoints share the rate limit of the reports', async () => {
  const small = await startTestApp({ yaml: 'reports: { requests_per_minute: 2 }' })
  try {
    const customer = await small.customer({ key: { scopes: ['manage'] } })
    const ask = () => small.get(customer, '/v1/key').then(({ status }) => status)
    // The minute can end between two requests; then more of them succeed.
    const statuses = [await ask(), await ask(), await ask(), await ask(), await ask()]
    expect(statuses).toContain(429)
    expect(statuses[0]).toBe(200)
  } finally {
    await small.close()
  }
})
