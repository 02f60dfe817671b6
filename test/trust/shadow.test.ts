import { beforeAll, describe, expect, test } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import { COMPARED_BATCH } from '../../src/market/trust/compare-answer.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { signedInMember } from '../harness/browser-client.ts'
import { answer, type Behaviour, completion, status, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Answers to customers are compared with those of the operator's own server, through the whole gateway.

const reference = useUpstream()
const cloud = useUpstream()
const honest = useUpstream()
const cheat = useUpstream()
/** Longer than the pause between comparisons. */
const PAUSE_MS = 30_000
const MARKER = 'zanzibarquartz'

const EXPENSIVE = { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n }

/** Draws every answer, and the second of eight accounts. */
const lowDraw = () => 0.24
let draw = lowDraw

let passedMs = 0
let logged = ''
const app = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }\ntrust: { audits: true, audit_minutes: 1440 }\nlog: { level: debug }',
  // So expensive that customers never get them.
  offers: [
    testOffer(reference.baseUrl, { price: EXPENSIVE }),
    testOffer(cloud.baseUrl, { modelId: 'of-a-cloud', price: EXPENSIVE, endpoint: { kind: 'cloud' } }),
  ],
  clock: { epochMs: () => Date.now(), monotonicMs: () => performance.now() + passedMs },
  random: () => draw(),
  onLog: line => {
    logged += line
  },
}))

const TRUE_TEXT = 'The Elbe flows there.'

beforeAll(() => {
  reference.always(model(TRUE_TEXT))
  cloud.always(model(TRUE_TEXT))
  honest.always(model(TRUE_TEXT))
  cheat.always(model('The Rhine flows there.'))
})

/** Answers with these words, and with log probabilities that are certain of each, if asked. */
function model(text: string): Behaviour {
  return (request, response) => {
    const body = completion({ text, model: request.body.model!, usage: usageOf(60, 5) })
    const [choice] = body.choices as { logprobs: unknown }[]
    if (request.body.logprobs === true) {
      choice!.logprobs = {
        content: text.split(/(?= )/).map(token => ({
          token,
          logprob: -0.01,
          top_logprobs: [
            { token, logprob: -0.01 },
            { token: ' other', logprob: -6 },
          ],
        })),
      }
    }
    status(200, body)(request, response)
  }
}

/** A customer that has turned sharing on in the console. */
async function sharingCustomer(): Promise<TestCustomer> {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  const shared = await browser.post(`customers/${customer.customerId}/request-sharing`, { consent: true })
  expect(await shared.json()).toEqual({ is_on: true })
  await app.app.noticeChanges()
  return customer
}

const MESSAGES = [{ role: 'user', content: `Which river? ${MARKER}` }]
const BODY = { model: 'test-model', messages: MESSAGES, max_tokens: 20, temperature: 0, tier: 'cheapest' }

/** Sends a request when the pause of the endpoint is over. */
async function ask(customer: TestCustomer, fields: object = {}): Promise<string> {
  passedMs += PAUSE_MS
  const response = await app.chat(customer, { ...BODY, ...fields })
  const text = await response.text()
  expect(response.status, text).toBe(200)
  return text
}

interface Compared {
  readonly hoster_id: string
  readonly customer_id: string
  readonly source: string
  readonly kind: string
  readonly value: number
}

async function compared(hosterId: string): Promise<Compared[]> {
  const { rows } = await app.database.pool.query<Compared>(
    'SELECT * FROM compared_answer WHERE hoster_id = $1 ORDER BY answer_id',
    [hosterId],
  )
  return rows
}

function expectCompared(hosterId: string, count: number) {
  return expect.poll(async () => (await compared(hosterId)).length, WAIT_OPTIONS).toBe(count)
}

test('an answer to a customer that shares its requests is compared, at the expense of the house', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const customer = await sharingCustomer()
  await ask(customer, { user: 'ada', seed: 4 })
  await expectCompared(hosterId, 1)
  expect(await compared(hosterId)).toMatchObject([
    { source: 'shadow', kind: 'gap', value: 0, customer_id: customer.customerId },
  ])
  expect(reference.requests.map(({ body }) => body)).toMatchObject([
    { messages: MESSAGES, temperature: 0, max_tokens: 20, logprobs: true },
  ])
  expect(reference.requests[0]!.body).not.toHaveProperty('user')
  const usage = await app.usage(customer)
  expect(usage).toMatchObject([{ hoster_id: hosterId, outcome: 'served' }])
  expect(await app.balanceNanos(customer)).toBe(5_000_000_000n - usage[0]!.cost_nanos)
  const { rows: house } = await app.database.pool.query<{ endpoint_id: string; cost_nanos: bigint }>(
    'SELECT endpoint_id, cost_nanos FROM usage_event WHERE customer_id IN (SELECT customer_id FROM house_customer)',
  )
  expect(house).toEqual([{ endpoint_id: `endpoint-${reference.port}`, cost_nanos: 585_000n }])
  const { rows: shares } = await app.database.pool.query(
    'SELECT purpose, customer_id, spent_nanos FROM shared_request_spend',
  )
  expect(shares).toEqual([{ purpose: 'shadow', customer_id: customer.customerId, spent_nanos: 585_000n }])
})

test('at other temperatures, the reference is asked for its likeliest answer too', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  await ask(await sharingCustomer(), { temperature: 1, seed: 4, allow_hosters: [hosterId], stream: true })
  await expectCompared(hosterId, 1)
  expect((await compared(hosterId))[0]!.kind).toBe('odds')
  const { body } = reference.requests.at(-1)!
  expect(body).toMatchObject({ temperature: 0, logprobs: true })
  expect(Object.keys(body)).not.toContain('seed')
})

test('a reference without log probabilities answers twice at the temperature of the request, and is not asked for them again', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const customer = await sharingCustomer()
  const before = reference.requests.length
  const plain = (text: string) => answer({ text, usage: usageOf(60, 5) })
  reference.respondWith(...['Any.', 'One answer.', 'Another one.', 'One answer.', 'Another one.'].map(plain))
  for (const count of [1, 2]) {
    await ask(customer, { temperature: 1, allow_hosters: [hosterId] })
    await expectCompared(hosterId, count)
  }
  expect(await compared(hosterId)).toMatchObject([
    { kind: 'pair', value: 1 },
    { kind: 'pair', value: 1 },
  ])
  const asked = reference.requests.slice(before).map(({ body }) => [body.temperature, body.logprobs])
  const twice = [1, undefined]
  expect(asked).toEqual([[0, true], twice, twice, twice, twice])
  passedMs += 3_600_000
})

test('nothing is sent without consent, with privacy_mode, with an image, or for a customer that is related to the hoster', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const [customer, related, other] = [await sharingCustomer(), await sharingCustomer(), await app.customer()]
  await app.database.pool.query('INSERT INTO hoster_account (hoster_id, customer_id) VALUES ($1, $2)', [
    hosterId,
    related.customerId,
  ])
  const before = reference.requests.length
  const only = { allow_hosters: [hosterId] }
  await ask(other, only)
  await ask(customer, { ...only, privacy_mode: true })
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }
  await ask(customer, { ...only, messages: [{ role: 'user', content: [image] }] })
  await ask(related, only)
  await ask(customer, { ...only, messages: [{ role: 'user', content: 'The only one.' }] })
  await expectCompared(hosterId, 1)
  const sent = reference.requests.slice(before).map(({ body }) => body.messages)
  expect(sent).toEqual([[{ role: 'user', content: 'The only one.' }]])
})

test('a cloud is asked too, but not for a request with a field that it does not get', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl, models: [{ modelId: 'of-a-cloud' }] })
  const customer = await sharingCustomer()
  await ask(customer, { model: 'of-a-cloud', top_k: 40 })
  await ask(customer, { model: 'of-a-cloud', messages: [{ role: 'user', content: 'Nothing else.' }] })
  await expectCompared(hosterId, 1)
  expect(cloud.requests.map(({ body }) => body.messages)).toEqual([[{ role: 'user', content: 'Nothing else.' }]])
})

test('a customer that has used up its share of the day is not compared, and others are', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const [large, other] = [await sharingCustomer(), await sharingCustomer()]
  await app.database.pool.query(
    `INSERT INTO shared_request_spend (day, purpose, customer_id, spent_nanos) VALUES ((now() AT TIME ZONE 'UTC')::date, 'shadow', $1, 299999999)`,
    [large.customerId],
  )
  await ask(large, { allow_hosters: [hosterId] })
  await expect
    .poll(async () => {
      await ask(other, { allow_hosters: [hosterId] })
      return (await compared(hosterId)).length
    }, WAIT_OPTIONS)
    .toBeGreaterThan(0)
  expect(new Set((await compared(hosterId)).map(({ customer_id }) => customer_id))).toEqual(new Set([other.customerId]))
})

test('a request in the dialect of Anthropic is compared as a request of chat', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  passedMs += PAUSE_MS
  const response = await fetch(`${app.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': (await sharingCustomer()).key, 'content-type': 'application/json' },
    body: JSON.stringify({ ...BODY, system: 'Be short.', allow_hosters: [hosterId], metadata: { user_id: 'ada' } }),
  })
  expect(response.status, await response.text()).toBe(200)
  await expectCompared(hosterId, 1)
  expect(await compared(hosterId)).toMatchObject([{ kind: 'gap', value: 0 }])
  const { body } = reference.requests.at(-1)!
  expect(body.messages).toEqual([{ role: 'system', content: 'Be short.' }, ...MESSAGES])
  expect(JSON.stringify(body)).not.toContain('ada')
})

test('a customer that takes its consent back is not compared any more', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const [customer, other] = [await app.customer(), await sharingCustomer()]
  const { browser } = await signedInMember(app, customer.customerId)
  const path = `customers/${customer.customerId}/request-sharing`
  await browser.post(path, { consent: true })
  expect(await (await browser.send('DELETE', path)).json()).toEqual({ is_on: false })
  await app.app.noticeChanges()
  await ask(customer, { allow_hosters: [hosterId] })
  await ask(other, { allow_hosters: [hosterId] })
  await expectCompared(hosterId, 1)
  expect(await compared(hosterId)).toMatchObject([{ customer_id: other.customerId }])
})

test('a reference that is slow or fails neither delays nor costs the customer', async () => {
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  const customer = await sharingCustomer()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  reference.respondWith(
    async (request, response) => {
      await released
      await model(TRUE_TEXT)(request, response)
    },
    status(500),
    status(400, { error: { message: `logprobs are not supported with ${MARKER}` } }),
    model(TRUE_TEXT),
    model(TRUE_TEXT),
  )
  const before = reference.requests.length
  const only = { allow_hosters: [hosterId] }
  await ask(customer, only)
  await expect.poll(() => reference.requests.length, WAIT_OPTIONS).toBe(before + 1)
  await ask(customer, only)
  await expect.poll(() => reference.requests.length, WAIT_OPTIONS).toBe(before + 2)
  release()
  await expectCompared(hosterId, 1)
  // Refused with log probabilities, it is asked without them, and so it is the next time.
  await ask(customer, only)
  await expectCompared(hosterId, 2)
  await ask(customer, only)
  await expectCompared(hosterId, 3)
  expect((await compared(hosterId)).map(({ kind }) => kind)).toEqual(['gap', 'words', 'words'])
  const usage = await app.usage(customer)
  expect(usage).toHaveLength(4)
  expect(await app.balanceNanos(customer)).toBe(
    5_000_000_000n - usage.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0n),
  )
})

test('the answers of a hoster with another model fail, given the history of an honest one', async () => {
  const { pool } = app.database
  const honestId = await app.hoster({ baseUrl: honest.baseUrl })
  await pool.query(
    `INSERT INTO compared_answer (hoster_id, model_id, source, kind, value, is_counted, at)
     SELECT $1, 'test-model', 'prompt', 'gap', 0, true, now() FROM generate_series(1, 120)`,
    [honestId],
  )
  const cheatId = await app.hoster({ baseUrl: cheat.baseUrl })
  // The reference is asked for log probabilities again.
  passedMs += 3_600_000
  let count = 0
  for (let customers = 0; customers < 4; customers++) {
    const customer = await sharingCustomer()
    for (let n = 0; n < COMPARED_BATCH / 4; n++) {
      await ask(customer, { allow_hosters: [cheatId] })
      await expectCompared(cheatId, ++count)
    }
  }
  const { rows } = await pool.query<{ kind: string; passed: boolean; sample: number }>(
    'SELECT kind, passed, sample FROM hoster_audit WHERE hoster_id = $1',
    [cheatId],
  )
  expect(rows).toEqual([{ kind: 'shadow', passed: false, sample: COMPARED_BATCH }])
})

test('no text of a request or an answer is stored or logged', async () => {
  const { pool } = app.database
  const { rows: tables } = await pool.query<{ name: string }>(
    `SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`,
  )
  expect(tables.length).toBeGreaterThan(50)
  for (const { name } of tables) {
    const { rows } = await pool.query(`SELECT FROM ${name} AS t WHERE t::text ~ $1`, [`${MARKER}|Elbe|Rhine`])
    expect({ name, rows: rows.length }).toEqual({ name, rows: 0 })
  }
  expect(logged).toContain('an answer was not compared')
  for (const word of [MARKER, 'Elbe', 'Rhine']) expect(logged).not.toContain(word)
})

test('comparisons and other audits are paid from different accounts', async () => {
  const { pool } = app.database
  const hosterId = await app.hoster({ baseUrl: honest.baseUrl })
  await ask(await sharingCustomer(), { allow_hosters: [hosterId] })
  await expectCompared(hosterId, 1)
  // An audit draws its prompt until it differs from the others.
  draw = createRandom(5).next
  await pool.query(
    `SELECT graphile_worker.add_job('audit_hoster', json_build_object('endpoint_id', endpoint_id))
       FROM hoster_endpoint, generate_series(1, 40) WHERE hoster_id = $1`,
    [hosterId],
  )
  const payersAt = async (where: string) => {
    const { rows } = await pool.query<{ account: number }>(
      `SELECT DISTINCT account::int FROM usage_event
         JOIN (SELECT customer_id, row_number() OVER (ORDER BY customer_id) AS account FROM house_customer) AS house USING (customer_id)
        WHERE ${where} ORDER BY account`,
    )
    return rows.map(({ account }) => account)
  }
  await expect.poll(async () => (await payersAt(`hoster_id = '${hosterId}'`)).length, WAIT_OPTIONS).toBeGreaterThan(3)
  expect((await payersAt(`hoster_id = '${hosterId}'`)).filter(account => account <= 3)).toEqual([])
  expect(await payersAt('hoster_id IS NULL')).toContain(1)
})

describe.each(['audits: false', 'shadow_seconds: 0'])('with trust.%s', setting => {
  const hosted = useUpstream()
  const own = useUpstream()
  const quiet = useTestApp(() => ({
    yaml: `hosters: { allow_private_urls: true }\ntrust: { audit_minutes: 1440, ${setting} }`,
    offers: [testOffer(own.baseUrl, { price: EXPENSIVE })],
    random: () => 0.1,
  }))

  test('nothing is compared', async () => {
    await quiet.hoster({ baseUrl: hosted.baseUrl })
    const customer = await quiet.customer()
    await quiet.database.pool.query('UPDATE customer SET shares_requests = true')
    expect((await quiet.chat(customer, BODY)).status).toBe(200)
    expect(hosted.requests).toHaveLength(1)
    // A stop waits for comparisons.
    await quiet.stop()
    expect(own.requests).toEqual([])
  })
})
