import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pruneAlerts, readHistory } from '../../src/money/alerts/alert-store.ts'
import { ATTEMPTS_MAX } from '../../src/money/alerts/enqueue-deliveries.ts'
import { postWebhook } from '../../src/money/alerts/post-webhook.ts'
import { createPinnedLookup } from '../../src/wire/egress/pinned-lookup.ts'
import { useResource } from '../harness/use-resource.ts'
import { type AlertWorld, createAlertWorld, noSmtp } from './alert-world.ts'
import { type SmtpSink, startSmtpSink } from './smtp-sink.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

const USD = 1_000_000_000n

let world: AlertWorld
let sink: SmtpSink
const receiver = useResource(startWebhookReceiver, server => server.close(), 'test')
beforeAll(async () => {
  sink = await startSmtpSink()
  world = await createAlertWorld({ smtp: { ...noSmtp, host: '127.0.0.1', port: sink.port } })
})
afterAll(async () => {
  await world?.close()
  await sink?.close()
})

/** Creates a customer whose balance is below the threshold of a webhook rule, and checks it. */
async function raised() {
  const customer = await world.customer(4n * USD)
  const added = await world.rule(customer, { thresholdNanos: 5n * USD, channel: 'webhook', target: receiver.url })
  expect(await world.watch().check()).toBe(1)
  return { customer, ...added, history: () => readHistory(world.database.pool, added.rule.ruleId, 10) }
}

describe('a webhook', () => {
  test('arrives once, signed according to Standard Webhooks', async () => {
    const { rule, secret, customer, history } = await raised()
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
    await world.runJobs()
    const [webhook] = await receiver.arrived(1)
    expect(webhook!.path).toBe('/hooks?team=7')
    const headers = webhook!.headers as Record<string, string>
    expect(new Webhook(secret!).verify(webhook!.body, headers)).toMatchObject({
      type: 'alert.low_balance',
      data: { rule_id: rule.ruleId, customer_id: customer.customerId, balance_usd: 4, threshold_usd: 5 },
    })
    expect(() => new Webhook(secret!).verify(`${webhook!.body} `, headers)).toThrow()
    const [alert] = await history()
    expect(alert).toMatchObject({
      alertId: headers['webhook-id'],
      deliveredAt: expect.any(Date),
      attempts: [{ attempt: 1, outcome: 'delivered', status: 204, error: null }],
    })
    await world.runJobs()
    expect(receiver.received).toHaveLength(1)
  })

  test('that is refused is retried after growing waits with the same id, and finally dropped', async () => {
    const { secret, history } = await raised()
    for (let n = 0; n < ATTEMPTS_MAX; n++) receiver.answerWith(response => response.writeHead(500).end())
    const waits: number[] = []
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      await world.runJobs()
      expect(receiver.received).toHaveLength(attempt)
      waits.push(...(await world.skipWait()))
    }
    for (const [at, wait] of waits.entries()) expect(wait / Math.E ** (at + 1)).toBeCloseTo(1, 0)
    expect(waits).toHaveLength(ATTEMPTS_MAX - 1)
    const ids = new Set(receiver.received.map(({ headers }) => headers['webhook-id']))
    expect(ids.size).toBe(1)
    for (const { body, headers } of receiver.received) {
      expect(() => new Webhook(secret!).verify(body, headers as Record<string, string>)).not.toThrow()
    }
    const [alert] = await history()
    expect(alert!.deliveredAt).toBeNull()
    expect(alert!.attempts.map(({ attempt }) => attempt)).toEqual(receiver.received.map((_, at) => at + 1))
    expect(alert!.attempts[0]).toMatchObject({ outcome: 'failed', status: 500, error: 'The receiver answered 500.' })
    const { rows } = await world.database.pool.query('SELECT FROM graphile_worker._private_jobs')
    expect(rows).toEqual([])
  })

  test('ends with the first attempt that is accepted', async () => {
    const { history } = await raised()
    receiver.answerWith(response => response.destroy())
    await world.runJobs()
    await world.skipWait()
    await world.runJobs()
    await world.skipWait()
    await world.runJobs()
    expect((await history())[0]!.attempts).toMatchObject([
      { outcome: 'failed', status: null, error: 'The connection failed (ECONNRESET).' },
      { outcome: 'delivered', status: 204 },
    ])
  })

  test('a redirect is not followed', async () => {
    const { history } = await raised()
    receiver.answerWith(response => response.writeHead(302, { location: '/elsewhere' }).end())
    await world.runJobs()
    expect(receiver.received).toHaveLength(1)
    expect((await history())[0]!.attempts).toMatchObject([{ status: 302, error: 'Redirects are not followed.' }])
    await world.skipWait()
    await world.runJobs()
  })

  test('is sent by only one of two racing nodes', async () => {
    const hooks = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const customer = await world.customer(4n * USD)
        return world.rule(customer, { thresholdNanos: 5n * USD, channel: 'webhook', target: receiver.url })
      }),
    )
    await Promise.all([world.watch().check(), world.watch().check()])
    await Promise.all([world.runJobs(), world.runJobs(), world.runJobs()])
    expect(new Set(receiver.received.map(({ headers }) => headers['webhook-id'])).size).toBe(hooks.length)
    expect(receiver.received).toHaveLength(hooks.length)
  })

  test('of a customer with one alert comes before those of a customer with many', async () => {
    const many = await world.customer(4n * USD)
    for (let n = 0; n < 6; n++) {
      await world.rule(many, { thresholdNanos: 5n * USD, channel: 'webhook', target: receiver.url })
    }
    await world.watch().check()
    const { customer } = await raised()
    // One at a time: of two concurrent ones either may arrive first.
    await world.runJobs({ atOnce: 1 })
    expect(receiver.received).toHaveLength(7)
    expect(JSON.parse(receiver.received[0]!.body).data.customer_id).toBe(customer.customerId)
  })

  test('of a removed rule is not sent', async () => {
    const { rule } = await raised()
    await world.database.pool.query('UPDATE alert_rule SET disabled_at = now() WHERE rule_id = $1', [rule.ruleId])
    await world.runJobs()
    expect(receiver.received).toEqual([])
  })

  test('a secret that was moved to another rule does not open', async () => {
    const { rule, history } = await raised()
    const other = await raised()
    await world.database.pool.query(
      'UPDATE alert_rule SET secret_sealed = (SELECT secret_sealed FROM alert_rule WHERE rule_id = $2) WHERE rule_id = $1',
      [rule.ruleId, other.rule.ruleId],
    )
    await world.runJobs()
    expect(receiver.received).toHaveLength(1)
    expect((await history())[0]!.attempts).toEqual([])
    await world.database.pool.query('DELETE FROM graphile_worker._private_jobs')
  })
})

describe('the target of a webhook', () => {
  const options = { allowPrivate: false, publicLookup: createPinnedLookup(), timeoutMs: 30_000 }
  let closed: AlertWorld
  beforeAll(async () => {
    closed = await createAlertWorld({ allowPrivate: false })
  })
  afterAll(() => closed?.close())

  test.each([
    'http://example.com/',
    'https://127.0.0.1/',
    'https://2130706433/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/latest',
    'https://localhost/',
    'https://metadata.google.internal/',
    'https://10.0.0.5.nip.io/',
    'https://example.com:6379/',
    'https://me:secret@example.com/',
    'file:///etc/passwd',
  ])('%s is refused when the rule is created, and again when it is called', async target => {
    const customer = await closed.customer(USD)
    const rule = closed.rule(customer, { thresholdNanos: USD, channel: 'webhook', target })
    await expect(rule).rejects.toMatchObject({ code: 'invalid_value', param: 'target' })
    expect(await postWebhook(target, {}, '{}', options)).toMatchObject({
      outcome: 'failed',
      error: expect.stringContaining('The URL is refused'),
    })
  })

  test('a name with a private address, later or among others, is not called', async () => {
    const answers = [
      [{ address: '127.0.0.1', family: 4 }],
      [
        { address: '93.184.216.34', family: 4 },
        { address: '10.0.0.5', family: 4 },
      ],
    ]
    const publicLookup = createPinnedLookup(async () => answers.shift()!)
    for (let n = 0; n < 2; n++) {
      expect(await postWebhook('https://hooks.acme.dev/', {}, '{}', { ...options, publicLookup })).toEqual({
        outcome: 'failed',
        status: null,
        error: 'The host name resolves to an address that is not public.',
      })
    }
  })

  test('a silent receiver times out, and an endless answer is not read', async () => {
    const open = { ...options, allowPrivate: true }
    receiver.answerWith(
      () => {},
      response => {
        response.writeHead(200)
        const flood = setInterval(() => response.write('x'.repeat(65_536)), 1)
        response.on('close', () => clearInterval(flood))
      },
      response => {
        response.socket!.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
      },
    )
    expect(await postWebhook(receiver.url, {}, '{}', { ...open, timeoutMs: 200 })).toMatchObject({
      outcome: 'failed',
      error: 'No answer within 0.2 s.',
    })
    expect(await postWebhook(receiver.url, {}, '{}', open)).toMatchObject({ outcome: 'delivered', status: 200 })
    expect(await postWebhook(receiver.url, {}, '{}', open)).toMatchObject({ outcome: 'failed' })
  })
})

describe('an e-mail', () => {
  test('says what happened and is retried when the server refuses it', async () => {
    const customer = await world.customer(4n * USD)
    const { rule, secret } = await world.rule(customer, { thresholdNanos: 5n * USD })
    expect(secret).toBeNull()
    await world.watch().check()
    sink.refuse = true
    await world.runJobs()
    sink.refuse = false
    await world.skipWait()
    await world.runJobs()
    expect(sink.mails).toHaveLength(1)
    expect(sink.mails[0]).toMatchObject({ from: 'gateway@example.com', to: customer.email })
    const { source } = sink.mails[0]!
    const [alert] = await readHistory(world.database.pool, rule.ruleId, 10)
    expect(source).toContain('Subject: Your balance is 4.00 USD')
    expect(source).toContain(`Message-ID: <${alert!.alertId}@switchyard>`)
    expect(source.replaceAll('=\n', '')).toContain('Your credit balance is 4.00 USD, below the 5.00 USD you set.')
    expect(alert!.attempts).toMatchObject([
      { outcome: 'failed', status: null, error: 'The mail server did not accept the mail.' },
      { outcome: 'delivered' },
    ])
    expect(JSON.stringify(alert)).not.toContain('10.1.2.3')
  })

  test('is logged when there is no mail server', async () => {
    const alone = await createAlertWorld()
    try {
      const customer = await alone.customer(4n * USD)
      const { rule } = await alone.rule(customer, { thresholdNanos: 5n * USD })
      await alone.watch().check()
      await alone.runJobs()
      expect(alone.logged.join('\n')).toContain('Your credit balance is 4.00 USD')
      expect(await readHistory(alone.database.pool, rule.ruleId, 10)).toMatchObject([
        { deliveredAt: expect.any(Date), attempts: [{ outcome: 'logged' }] },
      ])
    } finally {
      await alone.close()
    }
  })
})

test('the log is pruned together with disabled rules', async () => {
  const { rule, history } = await raised()
  await world.runJobs()
  const { pool } = world.database
  expect(await pruneAlerts(pool, 30)).toBe(0)
  await pool.query("UPDATE alert SET created_at = now() - interval '31 days' WHERE rule_id = $1", [rule.ruleId])
  await pool.query("UPDATE alert_rule SET disabled_at = now() - interval '31 days' WHERE rule_id = $1", [rule.ruleId])
  expect(await pruneAlerts(pool, 30)).toBe(1)
  expect(await history()).toEqual([])
  expect((await pool.query('SELECT FROM alert_rule WHERE rule_id = $1', [rule.ruleId])).rows).toEqual([])
})
