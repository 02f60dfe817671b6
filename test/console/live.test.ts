import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import { systemClock } from '../../src/base/runtime/scheduler.ts'
import { createLiveWatch } from '../../src/identity/live/live-watch.ts'
import { readLiveStates } from '../../src/identity/live/read-live-states.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { type LiveState, liveEnd, liveState } from '../../src/wire/api/live.ts'
import { startTestApp, type TestApp, testOffer } from '../harness/app.ts'
import { BrowserClient, PASSWORD, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Two nodes on one database: pages are open on the first, and things happen on the second.
const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
let other: TestApp
beforeAll(async () => {
  other = await startTestApp({ offers: [testOffer(upstream.baseUrl)], database: app.database })
})
afterAll(() => other.close())

interface Event {
  readonly name: string
  readonly data: unknown
}

/** Opens the stream and yields its events. */
async function* liveEvents(browser: BrowserClient, customerId: string): AsyncGenerator<Event, void> {
  const response = await browser.get(`customers/${customerId}/live`)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream')
  expect(response.headers.get('cache-control')).toBe('no-store')
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? []
      text = text.slice(end + 2)
      if (name !== undefined) yield { name, data: JSON.parse(data!) }
    }
  }
}

async function nextState(events: AsyncGenerator<Event, void>): Promise<LiveState> {
  const { value } = await events.next()
  expect(value).toMatchObject({ name: 'state' })
  return liveState.parse((value as Event).data)
}

/** Reads states until one passes. */
async function stateWith(events: AsyncGenerator<Event, void>, passes: (state: LiveState) => boolean) {
  for (;;) {
    const state = await nextState(events)
    if (passes(state)) return state
  }
}

async function endOf(events: AsyncGenerator<Event, void>): Promise<string> {
  for await (const { name, data } of events) if (name === 'end') return liveEnd.parse(data).reason
  throw new Error('the stream had no last event')
}

test('a page sees what happens on another node: a request, credit, a key, a member', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  const events = liveEvents(browser, customer.customerId)
  const first = await nextState(events)
  expect(first).toMatchObject({ balance_usd: 5, newest_request_id: null, requests_today: 0 })

  const answer = await other.chat(customer, { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })
  await answer.arrayBuffer()
  const requestId = answer.headers.get('x-request-id')
  const spent = await stateWith(events, state => state.newest_request_id !== null)
  expect(spent).toMatchObject({ newest_request_id: requestId, requests_today: 1 })
  expect(spent.balance_usd).toBe(Number(await app.balanceNanos(customer)) / 1e9)

  await grantCredit(app.database.pool, {
    customerId: customer.customerId,
    amountNanos: 7_000_000_000n,
    ref: randomUUID(),
    reason: 'paid',
  })
  expect((await nextState(events)).balance_usd).toBe((spent.balance_usd * 1e9 + 7e9) / 1e9)

  await other.anotherKey(customer)
  const withKey = await nextState(events)
  expect(withKey.versions.keys).toBeGreaterThan(spent.versions.keys)
  expect(withKey.versions).toEqual({ ...spent.versions, keys: withKey.versions.keys })

  await signedInMember(other, customer.customerId, 'viewer')
  expect((await nextState(events)).versions.people).toBeGreaterThan(withKey.versions.people)
  await events.return()
})

test('alerts are a topic: a rule, and an alert of it', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  const events = liveEvents(browser, customer.customerId)
  const { versions } = await nextState(events)
  const made = await browser.post(`customers/${customer.customerId}/alerts`, {
    kind: 'low_balance',
    threshold_usd: 1,
    channel: 'email',
  })
  expect(made.status).toBe(200)
  const withRule = await nextState(events)
  expect(withRule.versions).toEqual({ ...versions, alerts: versions.alerts + 1 })
  const { id } = (await made.json()) as { id: string }
  await app.database.pool.query(
    `INSERT INTO alert (alert_id, rule_id, kind, occurrence, facts) VALUES ($1, $2, 'test', 'once', '{}')`,
    [randomUUID(), id],
  )
  expect((await nextState(events)).versions.alerts).toBeGreaterThan(withRule.versions.alerts)
  await events.return()
})

test('the stream ends with its session: signed out elsewhere, membership removed, person disabled', async () => {
  const customer = await app.customer()
  const { customerId } = customer
  const { browser, email } = await signedInMember(app, customerId)
  const signedOut = liveEvents(browser, customerId)
  await nextState(signedOut)
  const elsewhere = new BrowserClient(other.url)
  await elsewhere.post('sign-in', { email, password: PASSWORD })
  expect((await elsewhere.post('sessions/end-others')).status).toBe(200)
  expect(await endOf(signedOut)).toBe('session_ended')

  const { browser: removed, email: removedEmail } = await signedInMember(app, customerId, 'viewer')
  const withoutMembership = liveEvents(removed, customerId)
  await nextState(withoutMembership)
  await app.database.pool.query(
    'DELETE FROM membership WHERE person_id = (SELECT person_id FROM person WHERE email = $1)',
    [removedEmail],
  )
  expect(await endOf(withoutMembership)).toBe('session_ended')

  const { browser: disabled, email: disabledEmail } = await signedInMember(app, customerId, 'billing')
  const ofDisabled = liveEvents(disabled, customerId)
  await nextState(ofDisabled)
  await app.database.pool.query('UPDATE person SET disabled_at = now() WHERE email = $1', [disabledEmail])
  expect(await endOf(ofDisabled)).toBe('session_ended')
})

test('strangers watch nothing', async () => {
  const [mine, theirs] = [await app.customer(), await app.customer()]
  const { browser } = await signedInMember(app, mine.customerId)
  const refused = await browser.get(`customers/${theirs.customerId}/live`)
  expect(await readError(refused)).toMatchObject({ status: 404, code: 'customer_not_found' })
  expect((await new BrowserClient(app.url).get(`customers/${mine.customerId}/live`)).status).toBe(401)
})

test('a person has a bounded number of open pages, and a closed one makes room', async () => {
  const { customerId } = await app.customer()
  const { browser } = await signedInMember(app, customerId)
  const open = Array.from({ length: 12 }, () => liveEvents(browser, customerId))
  await Promise.all(open.map(nextState))
  const refused = await browser.get(`customers/${customerId}/live`)
  expect(await readError(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  await open[0]!.return()
  await expect
    .poll(async () => {
      const response = await browser.get(`customers/${customerId}/live`)
      await response.body!.cancel()
      return response.status
    })
    .toBe(200)
  await Promise.all(open.map(events => events.return()))
})

test('a node that stops ends its streams', async () => {
  const { customerId } = await app.customer()
  const third = await startTestApp({ database: app.database })
  const { browser } = await signedInMember(third, customerId)
  const events = liveEvents(browser, customerId)
  await nextState(events)
  const stopped = third.close()
  expect(await endOf(events)).toBe('stopping')
  await stopped
})

test('a second has one query for all watchers, and none without watchers', async () => {
  let nowMs = 0
  let planned: { atMs: number; work: () => void } | undefined
  const scheduler = {
    ...systemClock,
    monotonicMs: () => nowMs,
    after(ms: number, work: () => void) {
      const plan = { atMs: nowMs + ms, work }
      planned = plan
      return () => {
        if (planned === plan) planned = undefined
      }
    },
    soon: setImmediate,
  }
  const asked: (readonly unknown[])[] = []
  const sql: Sql = {
    query: async (_statement, values) => {
      asked.push(values ?? [])
      return { rows: [], rowCount: 0 } as never
    },
  }
  /** Lets this many seconds pass. */
  const pass = async (seconds: number) => {
    for (let ms = 0; ms < seconds * 1000; ms += 100) {
      nowMs += 100
      const due = planned
      if (due === undefined || due.atMs > nowMs) continue
      planned = undefined
      due.work()
      await new Promise(setImmediate)
    }
  }
  // Sessions that are not found would end, so this answer keeps them.
  const kept = { ...sql, query: keeping(sql) }
  const watch = createLiveWatch({ sql: kept, scheduler, log: { warn: () => {} } })
  await pass(60)
  expect(asked).toHaveLength(0)
  const quiet = { onState() {}, onEnd() {} }
  const customers = ['a', 'b', 'c']
  const leave = Array.from({ length: 300 }, (_, index) =>
    watch.watch({ sessionId: `s${index % 60}`, personId: `p${index % 60}`, customerId: customers[index % 3]! }, quiet),
  )
  await pass(10)
  expect(asked.length).toBeGreaterThanOrEqual(9)
  expect(asked.length).toBeLessThanOrEqual(11)
  expect(asked[0]![0]).toEqual(customers)
  expect(asked[0]![1]).toHaveLength(60)
  for (const stop of leave) stop()
  const before = asked.length
  await pass(60)
  expect(asked).toHaveLength(before)
  await watch.stop()
})

/** Answers that every session is alive and every customer the same. */
function keeping(sql: Sql): Sql['query'] {
  return (async (statement: never, values: readonly (readonly string[])[]) => {
    await sql.query(statement, values)
    const [customerIds, sessionIds, watched] = values as [string[], string[], string[]]
    const state = { balanceNanos: '0', newestRequestId: null, requestsToday: 0, versions: {} }
    const later = new Date(Date.now() + 86_400_000)
    const sessions = sessionIds.map((sessionId, index) => ({
      customerId: watched[index],
      state: null,
      sessionId,
      installationRole: null,
      lastSeenAt: later,
      expiresAt: later,
    }))
    return { rows: [...customerIds.map(customerId => ({ customerId, state })), ...sessions] }
  }) as never
}

test('the query reads as few rows with twenty thousand requests as with none', async () => {
  const { pool } = app.database
  const { customerId } = await app.customer()
  let rowsRead = 0
  const explained: Sql = {
    async query(statement, values) {
      const { text } = statement as { text: string }
      const { rows } = await pool.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) ${text}`,
        values as unknown[],
      )
      rowsRead = rowsReadBy(rows[0]!['QUERY PLAN'][0].Plan)
      return pool.query(statement as never, values as never) as never
    },
  }
  const watches = [{ sessionId: randomUUID(), customerId }]
  await readLiveStates(explained, watches)
  const withNone = rowsRead
  await pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome)
     SELECT $1, (lpad(to_hex(1700000000000 + i), 12, '0') || '70008000000000000000')::uuid, to_timestamp(1700000000 + i), 'm', 'none', 1, 1,
       'none', 0, 0, 0, 0, 0, 0, 1, true, 'served' FROM generate_series(1, 20000) i`,
    [customerId],
  )
  await readLiveStates(explained, watches)
  // The newest request, and nothing else.
  expect(rowsRead - withNone).toBeLessThanOrEqual(1)
  await pool.query('DELETE FROM usage_event WHERE customer_id = $1', [customerId])
})

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly Plans?: readonly PlanNode[]
}

function rowsReadBy(node: PlanNode): number {
  const own = node['Node Type'].includes('Scan') ? node['Actual Rows'] * node['Actual Loops'] : 0
  return (node.Plans ?? []).reduce((total, plan) => total + rowsReadBy(plan), own)
}
