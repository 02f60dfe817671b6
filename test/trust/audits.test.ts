import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test, vi } from 'vitest'
import { createRandom } from '../../sim/random.ts'
import { testOffer } from '../harness/app.ts'
import { signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { hosterKey, hosterRequest } from '../harness/hosters.ts'
import { answer, type Behaviour, status, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { talker } from './audit-world.ts'

// Audits through the whole gateway: the job queue starts them, and they reach hosters as requests of customers do.

const local = useUpstream()
const honest = useUpstream()
const other = useUpstream()
const swapper = useUpstream()
/** A prompt of the operator, which no source names. */
const OWN_PROMPT = 'Which lamp is lit on platform nine after dusk?'
const directory = useResource(
  () => {
    const path = mkdtempSync(join(tmpdir(), 'switchyard-canaries-'))
    writeFileSync(join(path, 'canaries.yaml'), `canaries: [{ prompt: "${OWN_PROMPT}", answer: amber }]`)
    return { path }
  },
  ({ path }) => rmSync(path, { recursive: true }),
)
const app = useTestApp(() => ({
  yaml: `hosters: { allow_private_urls: true }\ntrust: { audits: true, canaries_file: ${join(directory.path, 'canaries.yaml')} }`,
  offers: [testOffer(local.baseUrl)],
  random: createRandom(5).next,
  timeouts: { auditPauseMsMax: 0 },
}))
const customer = useCustomer(app)

const ids: { honest: string; other: string; swapper: string } = { honest: '', other: '', swapper: '' }

const talk = talker()

/** Writes what the gateway asks it to write, and answers other prompts always the same way. */
const goodModel: Behaviour = (request, response) => {
  const prompt = String(request.body.messages!.at(-1)!.content)
  return answer({ text: answerTo(prompt), usage: usageOf(60, 5) })(request, response)
}

function answerTo(prompt: string): string {
  if (prompt.includes(OWN_PROMPT)) return `${REWRITTEN} ${talk()}`
  if (/Answer with nothing but that text/.test(prompt)) return talk()
  return prompt.startsWith(REWRITTEN) ? 'It is the amber one.' : `A quiet morning, and ${prompt.slice(-30)}`
}

/** How the reference puts the prompt of the operator. */
const REWRITTEN = 'At night: the light on the ninth platform.'

beforeAll(async () => {
  for (const upstream of [local, honest, other]) upstream.always(goodModel)
  swapper.always(answer({ text: 'I do not know that, sorry.', usage: usageOf(60, 5) }))
  ids.honest = await app.hoster({ baseUrl: honest.baseUrl, trustScore: 0 })
  ids.other = await app.hoster({ baseUrl: other.baseUrl, trustScore: 0 })
  ids.swapper = await app.hoster({ baseUrl: swapper.baseUrl, trustScore: 0 })
  // So many comparisons of other hosters are needed to judge one.
  await app.database.pool.query(
    `INSERT INTO compared_answer (hoster_id, model_id, source, kind, value, is_counted, at)
     SELECT unnest($1::uuid[]), 'test-model', 'prompt', 'words', 0, true, now() FROM generate_series(1, 60)`,
    [[ids.honest, ids.other]],
  )
  // From now on the requests of audits have these manners, with which answers tell most.
  for (let n = 0; n < 3; n++) {
    const messages = [{ role: 'user', content: `Hello ${n}.` }]
    await app.chat(customer, { model: 'test-model', messages, temperature: 0, top_p: 0.9, allow_hosters: [] })
  }
})

async function run(task: string, payload: object = {}): Promise<void> {
  await app.database.pool.query('SELECT graphile_worker.add_job($1, $2::json)', [task, JSON.stringify(payload)])
  await vi.waitFor(async () => {
    const { rows } = await app.database.pool.query<{ jobs: number }>(
      'SELECT count(*)::int AS jobs FROM graphile_worker.jobs WHERE task_identifier = $1 AND run_at <= now()',
      [task],
    )
    if (rows[0]!.jobs > 0) throw new Error(`${rows[0]!.jobs} jobs wait`)
  }, WAIT_OPTIONS)
}

async function auditAll(times: number): Promise<void> {
  await app.database.pool.query(
    `SELECT graphile_worker.add_job('audit_hoster', json_build_object('endpoint_id', endpoint_id))
     FROM hoster_endpoint, generate_series(1, $1::int - 1)`,
    [times],
  )
  const { rows } = await app.database.pool.query<{ endpoint_id: string }>('SELECT endpoint_id FROM hoster_endpoint')
  for (const { endpoint_id } of rows) await run('audit_hoster', { endpoint_id })
}

async function hosterRow(hosterId: string) {
  const { rows } = await app.database.pool.query<{
    state: string
    payout_frozen_at: Date | null
    quarantine_reason: string | null
  }>('SELECT state, payout_frozen_at, quarantine_reason FROM hoster WHERE hoster_id = $1', [hosterId])
  return rows[0]!
}

test('audits arrive as requests of several customers, are paid, and count for no reliability', async () => {
  await auditAll(6)
  const { rows: usage } = await app.database.pool.query<{ customers: number; paid: bigint; hosters: bigint }>(
    `SELECT count(DISTINCT customer_id)::int AS customers, sum(cost_nanos)::bigint AS paid, sum(hoster_share_nanos)::bigint AS hosters
     FROM usage_event WHERE customer_id IN (SELECT customer_id FROM house_customer)`,
  )
  expect(usage[0]!.customers).toBeGreaterThan(3)
  expect(usage[0]!.hosters).toBeGreaterThan(0n)
  const { rows: promo } = await app.database.pool.query<{ given: bigint }>(
    `SELECT -sum(amount_nanos)::bigint AS given FROM ledger_entry WHERE account_kind = 'platform_promo'
       AND tx_id IN (SELECT tx_id FROM ledger_tx WHERE reason = 'audits of hosters')`,
  )
  // 1 USD for each of eight accounts.
  expect(promo[0]!.given).toBe(8_000_000_000n)
  const bodies = honest.requests.map(({ body }) => body)
  for (const body of bodies) expect(body).toMatchObject({ temperature: 0, top_p: 0.9 })
  for (const body of bodies) expect(body).not.toHaveProperty('logprobs')
  expect(new Set(honest.requests.map(({ rawBody }) => rawBody)).size).toBe(bodies.length)
  // Nothing in a request tells it from one of a customer.
  const asCustomer = await sentByCustomer()
  for (const { headers } of honest.requests) expect(Object.keys(headers).sort()).toEqual(asCustomer)
  const { rows: evidence } = await app.database.pool.query('SELECT FROM hoster_customer_evidence')
  expect(evidence).toEqual([])
})

async function sentByCustomer(): Promise<string[]> {
  const messages = [{ role: 'user', content: 'Write a line.' }]
  await app.chat(customer, { model: 'test-model', messages, max_tokens: 20, allow_hosters: [ids.honest] })
  const sent = [...honest.requests, ...local.requests].find(({ rawBody }) => rawBody.includes('Write a line.'))!
  return Object.keys(sent.headers).sort()
}

test('security 27: a hoster with another model is quarantined; the honest ones are not, and an operator ends it', async () => {
  for (let round = 0; round < 60 && (await hosterRow(ids.swapper)).state === 'active'; round++) {
    await auditAll(6)
    await run('score_hosters')
  }
  const quarantined = await hosterRow(ids.swapper)
  expect(quarantined).toMatchObject({ state: 'suspended', payout_frozen_at: expect.any(Date) })
  expect(quarantined.quarantine_reason).toMatch(/^Audits prove a cheat: (it fails prompts|its answers)/)
  for (const hosterId of [ids.honest, ids.other])
    expect(await hosterRow(hosterId)).toMatchObject({ state: 'active', payout_frozen_at: null })
  const { rows } = await app.database.pool.query<{ kind: string; passed: boolean | null; count: number }>(
    `SELECT kind, passed, count(*)::int AS count FROM hoster_audit WHERE hoster_id = $1 GROUP BY 1, 2`,
    [ids.honest],
  )
  expect(rows.filter(({ passed }) => passed === false)).toEqual([])
  expect(rows.some(({ passed }) => passed === true)).toBe(true)
})

test("the operator's own prompts reach hosters in other words only", async () => {
  const hasArrived = () => honest.requests.some(({ rawBody }) => rawBody.includes(REWRITTEN))
  // Kinds and prompts are drawn, and one audit of five is a canary.
  for (let round = 0; round < 30 && !hasArrived(); round++) await auditAll(2)
  expect(hasArrived()).toBe(true)
  for (const { rawBody } of [...honest.requests, ...other.requests, ...swapper.requests])
    expect(rawBody).not.toContain(OWN_PROMPT)
})

/** Shows everybody the audits of today, as if the day had ended long ago. */
async function endDay(): Promise<void> {
  await run('write_trust_days')
  await app.database.pool.query('DELETE FROM hoster_trust_day WHERE day < (now() AT TIME ZONE $1)::date', ['UTC'])
  await app.database.pool.query('UPDATE hoster_trust_day SET day = day - 2')
}

test('requests of a customer that shares them reach another hoster, with the pseudonyms of the customer there', async () => {
  const sharing = await app.customer()
  await app.database.pool.query('UPDATE customer SET shares_requests = true WHERE customer_id = $1', [
    sharing.customerId,
  ])
  await app.app.noticeChanges()
  const ask = async (content: string, wanted: object) => {
    const messages = [{ role: 'user', content }]
    await app.chat(sharing, { model: 'test-model', messages, user: 'anna', temperature: 0, ...wanted })
  }
  const arrivedWith = (text: string) => honest.requests.find(({ rawBody }) => rawBody.includes(text))
  // Servers and kinds of audits are drawn.
  const elsewhere: string[] = []
  for (let n = 0; n < 60 && elsewhere.length < 6; n++) {
    const text = `What is the length of weir number ${n}?`
    await ask(text, {})
    if (arrivedWith(text) === undefined) elsewhere.push(text)
  }
  const repeated = () => elsewhere.map(arrivedWith).find(request => request !== undefined)
  for (let round = 0; round < 100 && repeated() === undefined; round++) await auditAll(2)
  const { user } = repeated()!.body
  expect(user).toMatch(/^[\w-]{43}$/)
  // While the local server fails, the hoster answers the customer itself.
  local.always(status(500))
  const direct = 'What is the width of the last weir?'
  await expect
    .poll(async () => {
      await ask(direct, { allow_hosters: [ids.honest] })
      return arrivedWith(direct)?.body.user
    }, WAIT_OPTIONS)
    .toBe(user)
  local.always(goodModel)
  await ask('Which server has no pseudonyms?', { allow_hosters: [] })
  expect(local.requests.filter(({ rawBody }) => rawBody.includes('"anna"'))).not.toEqual([])
})

test('the page of a hoster explains its score and reveals no prompt', async () => {
  const show = async () => {
    await endDay()
    const response = await app.get(customer, `/v1/hosters/${ids.honest}/trust`)
    expect(response.status).toBe(200)
    return await response.text()
  }
  const hasPassed = (page: string) =>
    (JSON.parse(page) as { last_audits: { passed: boolean | null }[] }).last_audits.some(
      ({ passed }) => passed === true,
    )
  // Kinds are drawn, and only some of them can be passed: the last ones may all be comparisons.
  let text = await show()
  for (let round = 0; round < 30 && !hasPassed(text); round++) {
    await auditAll(2)
    text = await show()
  }
  expect(JSON.parse(text)).toMatchObject({
    ...{
      object: 'hoster_trust',
      hoster_id: ids.honest,
      is_trusted: false,
      is_set_by_operator: false,
      standing: 'unverified',
      cap: 0.7,
    },
    components: [{ name: 'reliability' }, { name: 'honesty', rate: 1 }, { name: 'conformance' }],
    gates: [{ name: 'requests' }, { name: 'audits' }, { name: 'ageDays', is_passed: false }, { name: 'honestyBound' }],
    would_raise: expect.arrayContaining([expect.stringMatching(/more requests of customers/)]),
    last_audits: expect.arrayContaining([expect.objectContaining({ passed: true, model: 'test-model' })]),
  })
  for (const { body } of honest.requests.slice(0, 20))
    expect(text).not.toContain(JSON.stringify(body.messages!.at(-1)!.content))
  for (const id of ['00000000-0000-4000-8000-000000000000', 'x'])
    expect(await readError(await app.get(customer, `/v1/hosters/${id}/trust`))).toMatchObject({
      code: 'hoster_not_found',
    })
})

test('a quarantined hoster sees the proof and appeals once; an operator keeps or ends it, and all of that is logged', async () => {
  const { key } = await hosterKey(app, ids.swapper)
  const own = (await (await hosterRequest(app, key, 'hoster/trust')).json()) as { tests: { p: number }[] }
  expect(own).toMatchObject({
    is_quarantined: true,
    score: 0,
    quarantine_reason: expect.stringContaining('prove a cheat'),
  })
  expect(Math.min(...own.tests.map(({ p }) => p))).toBeLessThan(1e-3)

  const appeal = (holder: string) =>
    hosterRequest(app, holder, 'hoster/appeal', { method: 'POST', body: { text: 'It was a test.' } })
  expect((await appeal(key)).status).toBe(200)
  expect(await readError(await appeal(key))).toMatchObject({ code: 'hoster_state_refused' })
  const honestKey = (await hosterKey(app, ids.honest)).key
  expect(await readError(await appeal(honestKey))).toMatchObject({ code: 'hoster_state_refused' })
  const readKey = (await hosterKey(app, ids.swapper, ['read'])).key
  expect(await readError(await appeal(readKey))).toMatchObject({ code: 'insufficient_scope' })

  const { browser } = await signedInOperator(app)
  const path = `operator/hosters/${ids.swapper}/quarantine`
  const kept = await browser.send('POST', path, { decision: 'keep', reason: 'It was no test.' })
  expect(await kept.json()).toMatchObject({
    is_quarantined: true,
    appeals: [{ text: 'It was a test.', answer: 'It was no test.' }],
  })
  expect(await (await browser.get(`operator/hosters/${ids.swapper}/trust`)).json()).toMatchObject({
    is_quarantined: true,
  })
  swapper.always(goodModel)
  const ended = await browser.send('POST', path, { decision: 'end', reason: 'It serves the model again.' })
  expect(await ended.json()).toMatchObject({ is_quarantined: false, state: 'active', quarantine_reason: null })
  await run('score_hosters')
  expect(await hosterRow(ids.swapper)).toMatchObject({ state: 'active', payout_frozen_at: null })
  const { rows } = await app.database.pool.query<{ action: string }>(
    `SELECT action FROM audit_entry WHERE action LIKE 'hoster.%' AND detail->>'from' IS DISTINCT FROM 'pending' ORDER BY entry_id`,
  )
  expect(rows.map(({ action }) => action)).toEqual([
    'hoster.state_changed',
    ...rows.filter(({ action }) => action === 'hoster.key_issued').map(({ action }) => action),
    'hoster.appealed',
    'hoster.appeal_answered',
    'hoster.state_changed',
  ])
})
