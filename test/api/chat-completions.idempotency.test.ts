import { createHash, randomBytes, randomUUID } from 'node:crypto'
import OpenAI from 'openai'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { standardTimeouts } from '../../src/base/domain/endpoint-defaults.ts'
import {
  createPostgresClaimStore,
  deleteExpiredClaims,
} from '../../src/request/chat/idempotency/postgres-claim-store.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readUntil } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { answer, stall, status, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

// Two gateways on one database: a retry can reach either of them.
const upstream = useUpstream('test')
const database = useTestDatabase()
let one: TestApp
let two: TestApp
let customer: TestCustomer

const credit = 5_000_000_000n
const messages = [{ role: 'user', content: 'Hello' }]

beforeEach(async () => {
  const masterKey = randomBytes(32)
  const offers = [testOffer(upstream.baseUrl)]
  one = await startTestApp({ database, masterKey, offers })
  two = await startTestApp({ database, masterKey, offers })
  customer = await one.customer({ creditNanos: credit })
})
afterEach(async () => {
  await one?.close()
  await two?.close()
})

const chat = (app: TestApp, key: string, body: object = {}, init: RequestInit = {}) =>
  app.chat(customer, { model: 'test-model', messages, ...body }, { ...init, headers: { 'idempotency-key': key } })

/** The upstream answers the next request only after the returned function is called. */
function holdAnswers(behaviour = answer()): () => void {
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(async (request, response) => {
    await gate.promise
    await behaviour(request, response)
  })
  return gate.resolve
}

/** The costs of the customer's requests. Expects the balance to match them. */
async function charged(count: number): Promise<bigint[]> {
  const rows = await one.settled(customer, count)
  expect(rows).toHaveLength(count)
  const costs = rows.map(row => row.cost_nanos)
  expect(await one.balanceNanos(customer)).toBe(credit - costs.reduce((sum, cost) => sum + cost, 0n))
  return costs
}

/** Sends a retry until the first request is complete: a client reads the end of a stream just before the answer is stored. */
async function retried(app: TestApp, key: string, body: object = {}): Promise<Response> {
  return await vi.waitFor(async () => {
    const response = await chat(app, key, body)
    if (response.status === 409 && response.headers.has('retry-after')) throw new Error('still running')
    return response
  }, WAIT_OPTIONS)
}

describe('POST /v1/chat/completions with an Idempotency-Key', () => {
  test('a retry to either node gets the same answer for one charge', async () => {
    const key = randomUUID()
    const first = await chat(one, key)
    const body = await first.text()
    expect(first.headers.get('idempotent-replayed')).toBeNull()
    for (const app of [one, two]) {
      const again = await chat(app, key)
      expect(again.status).toBe(200)
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      expect(again.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'))
      expect(again.headers.get('x-ratelimit-limit-requests')).toBe(first.headers.get('x-ratelimit-limit-requests'))
      expect(await again.text()).toBe(body)
    }
    expect(upstream.requests).toHaveLength(1)
    expect(await charged(1)).toEqual([expect.any(BigInt)])
  })

  test('a retry of a stream gets the same events', async () => {
    const key = randomUUID()
    const first = await (await chat(one, key, { stream: true })).text()
    const again = await retried(two, key, { stream: true })
    expect(again.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(await again.text()).toBe(first)
    expect(upstream.requests).toHaveLength(1)
    await charged(1)
  })

  test.each([false, true])('a retry gets the headers of the first answer, stream: %s', async stream => {
    const body = { stream, max_tokens: 4_000, max_cost_usd: 0.0003 }
    const key = randomUUID()
    const first = await chat(one, key, body)
    await first.text()
    const again = await retried(two, key, body)
    const headersOf = ({ headers }: Response) =>
      ['x-switchyard-provider', 'x-switchyard-max-tokens', 'x-switchyard-cost-usd'].map(name => headers.get(name))
    expect(headersOf(first).slice(0, 2)).toEqual(['local', expect.stringMatching(/^\d+$/)])
    expect(headersOf(again)).toEqual(headersOf(first))
    await again.text()
    await charged(1)
  })

  test('the stored answer is encrypted and expires after 24 hours', async () => {
    upstream.respondWith(answer({ text: 'a very private answer' }))
    const key = randomUUID()
    await (await chat(one, key)).text()
    const { rows } = await database.pool.query<{ answer_sealed: Buffer; hours: string }>(
      `SELECT answer_sealed, round(extract(epoch FROM expires_at - claimed_at) / 3600)::text AS hours FROM idempotency WHERE key = $1`,
      [key],
    )
    expect(rows[0]!.answer_sealed.includes('private')).toBe(false)
    expect(rows[0]!.hours).toBe('24')
  })

  test.each([
    ['of a request with privacy_mode', { privacy_mode: true }, answer()],
    [
      'that is larger than 256 KiB',
      {},
      status(200, {
        choices: [{ message: { content: 'one', annotations: ['x'.repeat(300_000)] }, finish_reason: 'stop' }],
        usage: usageOf(10, 1),
      }),
    ],
  ])('an answer %s is not stored: a retry is 409 with request id and cost', async (_which, body, behaviour) => {
    upstream.respondWith(behaviour)
    const key = randomUUID()
    const first = await chat(one, key, body)
    expect(first.status).toBe(200)
    await first.text()
    const again = await chat(two, key, body)
    const error = await readError(again)
    const [row] = await one.settled(customer, 1)
    expect(error).toMatchObject({
      ...{ status: 409, code: 'already_completed', param: 'Idempotency-Key' },
      ...{ request_id: first.headers.get('x-request-id'), cost_usd: Number(row!.cost_nanos) / 1e9 },
    })
    expect(error.message).toContain(first.headers.get('x-request-id'))
    expect(error.message).toMatch(/charged 0\.\d+ USD once/)
    expect(again.headers.get('x-should-retry')).toBe('false')
    await charged(1)
  })

  test('a retry is 409 with the cost if the answer was encrypted with another master key', async () => {
    const key = randomUUID()
    await (await chat(one, key)).text()
    const other = await startTestApp({ database, masterKey: randomBytes(32), offers: [testOffer(upstream.baseUrl)] })
    try {
      const refused = await readError(await chat(other, key))
      expect(refused).toMatchObject({ status: 409, code: 'already_completed', cost_usd: expect.any(Number) })
    } finally {
      await other.close()
    }
  })

  test('a retry is 409 with Retry-After while the first request runs', async () => {
    const goOn = holdAnswers()
    const key = randomUUID()
    const first = chat(one, key)
    await upstream.next()
    const second = await chat(two, key)
    expect(second.headers.get('retry-after')).toBe('2')
    expect(await readError(second)).toMatchObject({
      status: 409,
      code: 'idempotency_key_in_use',
      param: 'Idempotency-Key',
    })
    goOn()
    expect((await first).status).toBe(200)
    await charged(1)
  })

  test('a claim stays valid as long as the timeouts of its server allow', async () => {
    const timeouts = { connectMs: 1_000, firstTokenMs: 20_000, tokenMs: 0, idleMs: 20_000, totalMs: 3 * 3_600_000 }
    const slow = await startTestApp({
      database,
      offers: [testOffer(upstream.baseUrl, { endpoint: { timeouts } })],
    })
    try {
      const goOn = holdAnswers()
      const key = randomUUID()
      const first = chat(slow, key)
      await upstream.next()
      await database.pool.query('UPDATE idempotency SET heartbeats = heartbeats - 2 * 3600 WHERE key = $1', [key])
      expect(await readError(await chat(slow, key))).toMatchObject({
        status: 409,
        code: 'idempotency_key_in_use',
      })
      goOn()
      expect((await first).status).toBe(200)
      expect((await charged(1))[0]).toBeGreaterThan(0n)
    } finally {
      await slow.close()
    }
  })

  test('a claim stays valid for an hour longer than any answer may take', async () => {
    const key = randomUUID()
    const goOn = holdAnswers()
    const first = chat(one, key)
    await upstream.next()
    // The node of a claim counts its heartbeats, one per second.
    const age = (minutes: number) =>
      database.pool.query(
        `UPDATE idempotency i SET heartbeats = h.heartbeats - $2 FROM node_heartbeat h WHERE h.node_id = i.node_id AND i.key = $1`,
        [key, minutes * 60],
      )
    // A slow client can double the time, see src/start/compose/idempotency.ts.
    const longestAnswerMinutes = (2 * standardTimeouts.totalMs) / 60_000
    await age(longestAnswerMinutes + 59)
    expect(await readError(await chat(two, key))).toMatchObject({ status: 409, code: 'idempotency_key_in_use' })
    await age(longestAnswerMinutes + 61)
    const second = chat(two, key)
    await upstream.next()
    goOn()
    await Promise.all([first, second])
    expect((await charged(2)).filter(cost => cost > 0n)).toHaveLength(1)
  })

  test.each([
    ['is served', answer()],
    ['fails', status(500)],
  ])(
    'a claim is taken over from a request without an end, and not released when that request later %s',
    async (_how, behaviour) => {
      const key = randomUUID()
      const goOnFirst = holdAnswers(behaviour)
      const first = chat(one, key)
      await upstream.next()
      await database.pool.query('UPDATE idempotency SET heartbeats = heartbeats - 3 * 3600 WHERE key = $1', [key])
      const goOnSecond = holdAnswers()
      const second = chat(two, key)
      await upstream.next()
      const inUse = { status: 409, code: 'idempotency_key_in_use' }
      expect(await readError(await chat(one, key))).toMatchObject(inUse)
      goOnFirst()
      await first
      expect(await readError(await chat(one, key))).toMatchObject(inUse)
      goOnSecond()
      expect((await second).status).toBe(200)
      expect((await charged(2)).filter(cost => cost > 0n)).toHaveLength(1)
    },
  )

  test('a claim of a dead node for a free request is taken over once', async () => {
    const key = randomUUID()
    upstream.respondWith(status(500))
    expect((await chat(one, key)).status).toBe(500)
    const [failed] = await one.settled(customer, 1)
    const body = createHash('sha256')
      .update('/v1/chat/completions')
      .update(JSON.stringify({ model: 'test-model', messages }))
      .digest()
    // The node of the claim is dead: it has no row.
    await database.pool.query(
      `INSERT INTO idempotency (customer_id, key, body_hash, request_id, node_id, heartbeats, expires_at)
       VALUES ($1, $2, $3, $4, gen_random_uuid(), 7, now() + interval '1 hour')`,
      [customer.customerId, key, body, failed!.request_id],
    )
    const goOn = holdAnswers()
    const asking = chat(one, key)
    await vi.waitFor(() => expect(upstream.requests).toHaveLength(2), WAIT_OPTIONS)
    // Another retry that read the claim before this takeover.
    const late = {
      customerId: customer.customerId,
      keyId: '',
      key,
      bodyHash: body,
      requestId: randomUUID(),
      modelId: '',
    }
    const store = createPostgresClaimStore(database.pool, () => 0)
    expect(await store.takeOver(late, failed!.request_id, randomUUID())).toBe(false)
    goOn()
    expect((await asking).status).toBe(200)
    expect((await charged(2)).filter(cost => cost > 0n)).toHaveLength(1)
  })

  test('a retry with a key that may not use the model is refused', async () => {
    const key = randomUUID()
    expect((await chat(one, key)).status).toBe(200)
    const [other, same] = [['other-model'], ['test-model']].map(allowedModels =>
      one.anotherKey(customer, { allowedModels }),
    )
    const again = async (caller: TestCustomer) =>
      one.chat(caller, { model: 'test-model', messages }, { headers: { 'idempotency-key': key } })
    expect(await readError(await again(await other!))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
      param: 'model',
    })
    expect((await again(await same!)).headers.get('idempotent-replayed')).toBe('true')
    expect(await charged(1)).toHaveLength(1)
  })

  test('a key that is reused with another body is refused', async () => {
    const key = randomUUID()
    await (await chat(one, key)).text()
    const other = await chat(two, key, { temperature: 0.5 })
    expect(await readError(other)).toMatchObject({
      status: 422,
      code: 'idempotency_key_reused',
      param: 'Idempotency-Key',
    })
    await charged(1)
  })

  test('a key of another customer is independent', async () => {
    const key = randomUUID()
    await (await chat(one, key)).text()
    const other = await one.customer()
    const headers = { 'idempotency-key': key }
    const response = await one.chat(other, { model: 'test-model', messages: [...messages, ...messages] }, { headers })
    expect(response.status).toBe(200)
    expect(response.headers.get('idempotent-replayed')).toBeNull()
  })

  test('a key can be used again after a request that was free', async () => {
    upstream.respondWith(status(400, { error: { message: 'no' } }), answer())
    const key = randomUUID()
    expect((await chat(one, key)).status).toBe(400)
    expect((await chat(two, key)).status).toBe(200)
    const poor = await one.customer({ creditNanos: 1n })
    const asPoor = () =>
      one.chat(poor, { model: 'test-model', messages, max_tokens: 10 }, { headers: { 'idempotency-key': 'poor' } })
    expect((await asPoor()).status).toBe(402)
    expect((await asPoor()).status).toBe(402)
    expect(await charged(2)).toEqual([0n, expect.any(BigInt)])
  })

  test('a key can be used again after an answer that is nested too deep to serialize', async () => {
    const depth = 20_000
    const message = `{"role":"assistant","content":"Hi","extra":${'{"0":'.repeat(depth)}1${'}'.repeat(depth)}}`
    const body = `{"choices":[{"index":0,"message":${message},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
    upstream.respondWith(
      (_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end(body),
    )
    const key = randomUUID()
    expect(await readError(await chat(one, key))).toMatchObject({ status: 500, code: 'all_hosters_failed' })
    expect((await chat(two, key)).status).toBe(200)
    expect(await charged(2)).toEqual([0n, expect.any(BigInt)])
  })

  test('a stream that its client left is charged once and not generated again', async () => {
    upstream.respondWith(stall({ pieces: ['one', ' two', ' three'] }))
    const key = randomUUID()
    const client = new AbortController()
    const response = await chat(one, key, { stream: true }, { signal: client.signal })
    await readUntil(response.body!.getReader(), 'three')
    client.abort()
    await one.settled(customer, 1)
    expect(await readError(await retried(two, key, { stream: true }))).toMatchObject({ code: 'already_completed' })
    expect((await charged(1))[0]).toBeGreaterThan(0n)
  })

  test('each retry counts against the rate limits', async () => {
    const limited = await one.customer({
      limits: { requestsPerMinute: 2, requestsPerDay: 100, dailySpendCapNanos: 10n ** 12n },
    })
    const ask = () => one.chat(limited, { model: 'test-model', messages }, { headers: { 'idempotency-key': 'same' } })
    expect((await ask()).status).toBe(200)
    expect((await ask()).status).toBe(200)
    expect(await readError(await ask())).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  })

  test('a request over a rate limit does not claim its key', async () => {
    const limited = await one.customer({
      limits: { requestsPerMinute: 1, requestsPerDay: 100, dailySpendCapNanos: 10n ** 12n },
    })
    const ask = () =>
      one.chat(limited, { model: 'test-model', messages }, { headers: { 'idempotency-key': randomUUID() } })
    expect([(await ask()).status, (await ask()).status]).toEqual([200, 429])
    // From now on every statement about claims blocks.
    const lock = await database.pool.pg.connect()
    try {
      await lock.query('BEGIN; LOCK TABLE idempotency IN ACCESS EXCLUSIVE MODE')
      expect(await readError(await ask())).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
    } finally {
      await lock.query('ROLLBACK')
      lock.release()
    }
  })

  test('a key and its stored answer expire after a day', async () => {
    const key = randomUUID()
    await (await chat(one, key)).text()
    const expire = () => database.pool.query(`UPDATE idempotency SET expires_at = now() WHERE key = $1`, [key])
    await expire()
    await database.pool.query('UPDATE idempotency SET node_id = gen_random_uuid() WHERE key = $1', [key])
    const goOn = holdAnswers()
    const asking = chat(two, key, { temperature: 0.5 })
    await vi.waitFor(() => expect(upstream.requests).toHaveLength(2), WAIT_OPTIONS)
    expect((await chat(one, key, { temperature: 0.5 })).status).toBe(409)
    goOn()
    const again = await asking
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, null])
    const isKept = async () => {
      await deleteExpiredClaims(database.pool)
      return (await database.pool.query('SELECT FROM idempotency WHERE key = $1', [key])).rows.length === 1
    }
    // Not a minute early: until then a retry must be a replay.
    await database.pool.query(`UPDATE idempotency SET expires_at = now() + interval '1 minute' WHERE key = $1`, [key])
    expect(await isKept()).toBe(true)
    const replayed = await chat(two, key, { temperature: 0.5 })
    expect([replayed.status, replayed.headers.get('idempotent-replayed')]).toEqual([200, 'true'])
    await replayed.text()
    await expire()
    expect(await isKept()).toBe(false)
    await charged(2)
  })

  test('50 concurrent requests to two nodes are charged once', async () => {
    const key = randomUUID()
    const responses = await Promise.all(Array.from({ length: 50 }, (_, n) => chat(n % 2 === 0 ? one : two, key)))
    const statuses = new Set(responses.map(response => response.status))
    for (const response of responses) await response.text()
    expect([...statuses].filter(status => status !== 200 && status !== 409)).toEqual([])
    expect(upstream.requests).toHaveLength(1)
    await charged(1)
  })

  test('a key stays claimed while it is unknown whether its request was charged', async () => {
    // The rows of this gateway look old, so another node takes their state as final at once.
    const late = { epochMs: () => Date.now() - 60_000, monotonicMs: () => performance.now() }
    const three = await startTestApp({
      database,
      offers: [testOffer(upstream.baseUrl)],
      clock: late,
      // Long enough to send the settlement, which would be voided before.
      timeouts: { commitWaitMs: 1_000 },
    })
    const { pool } = database
    // A lock would end the attempt after its limit, and the next one would send the free settlement.
    await pool.query(`
      CREATE TABLE gate (is_open boolean);
      INSERT INTO gate VALUES (false);
      CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
      BEGIN
        WHILE NOT (SELECT is_open FROM gate) LOOP PERFORM pg_sleep(0.01); END LOOP;
        RETURN NULL;
      END $$`)
    const openGate = () => pool.query('UPDATE gate SET is_open = true')
    try {
      const key = randomUUID()
      const goOn = holdAnswers()
      const first = chat(three, key)
      await upstream.next()
      // The settlement waits here and commits after the caller has received the 504.
      await pool.query('CREATE TRIGGER gate BEFORE INSERT ON ledger_entry EXECUTE FUNCTION wait_at_gate()')
      goOn()
      expect(await readError(await first)).toMatchObject({ status: 504, code: 'settlement_unavailable' })
      await openGate()
      expect(await readError(await retried(one, key))).toMatchObject({ status: 409, code: 'already_completed' })
      expect((await charged(1))[0]).toBeGreaterThan(0n)
    } finally {
      await openGate()
      // The audit at the end of a gateway reports a function that roles should not have.
      await pool.query('DROP FUNCTION wait_at_gate CASCADE; DROP TABLE gate')
      await three.close()
    }
  })

  test.each(['', ' ', 'x'.repeat(256), 'ünïcode'])('the invalid key %j is refused', async key => {
    const { status: code, body } = await new Promise<{ status: number; body: string }>((resolve, reject) => {
      import('node:http').then(({ request }) => {
        const sent = request(
          `${one.url}/v1/chat/completions`,
          {
            method: 'POST',
            headers: {
              authorization: `Bearer ${customer.key}`,
              'content-type': 'application/json',
              'idempotency-key': Buffer.from(key).toString('latin1'),
            },
          },
          async response => {
            const pieces: Buffer[] = []
            for await (const piece of response) pieces.push(piece)
            resolve({ status: response.statusCode!, body: Buffer.concat(pieces).toString() })
          },
        )
        sent.on('error', reject)
        sent.end(JSON.stringify({ model: 'test-model', messages }))
      }, reject)
    })
    expect(code).toBe(400)
    expect(JSON.parse(body).error).toMatchObject({ code: 'invalid_header', param: 'Idempotency-Key' })
  })

  // node:http joins two headers to "order-1, order-2", which would be a third key.
  test.each(['order-1', 'order-2'])('two keys, order-1 and %s, are refused', async second => {
    const body = JSON.stringify({ model: 'test-model', messages })
    const { status: code, body: refusal } = await rawRequest(
      one.url,
      'POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n' +
        `Authorization: Bearer ${customer.key}\r\nContent-Length: ${body.length}\r\n` +
        `Idempotency-Key: order-1\r\nIDEMPOTENCY-KEY: ${second}\r\n\r\n${body}`,
    )
    expect(code).toBe(400)
    expect(JSON.parse(refusal).error).toMatchObject({ code: 'invalid_header', param: 'Idempotency-Key' })
    await charged(0)
  })

  test('the OpenAI SDK can send the header', async () => {
    const client = new OpenAI({ apiKey: customer.key, baseURL: `${one.url}/v1` })
    const ask = () =>
      client.chat.completions.create(
        { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] },
        { headers: { 'Idempotency-Key': 'from-the-sdk' } },
      )
    expect(await ask()).toEqual(await ask())
    await charged(1)
  })
})
