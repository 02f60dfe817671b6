import { randomBytes } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { measureDisks } from '../../src/market/supply/status/measure-disks.ts'
import { noteAlarms } from '../../src/operator/alarms/note-alarms.ts'
import { noteBackup, readBackupState } from '../../src/operator/backup-state.ts'
import type { Alarm, Overview } from '../../src/wire/api/operator/overview.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { operatorToken, signedInOperator } from '../harness/browser-client.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'
import { startSmtpSink } from './smtp-sink.ts'
import { startWebhookReceiver } from './webhook-receiver.ts'

// Operators are notified when an alarm begins and when it is over: by three nodes together, once.

const database = useTestDatabase()
const emptyDatabase = useTestDatabase('test')
const upstream = useUpstream('file')
const sink = useResource(startSmtpSink, each => each.close(), 'file')
const receiver = useResource(startWebhookReceiver, each => each.close(), 'file')
const secret = `whsec_${randomBytes(32).toString('base64')}`
let offsetMs = 0
const clock = { epochMs: () => Date.now() + offsetMs, monotonicMs: () => performance.now() + offsetMs }
let apps: TestApp[]
let customer: TestCustomer

beforeAll(async () => {
  const masterKey = randomBytes(32)
  const yaml = [
    'demo: { enabled: false }',
    'detect: { enabled: false }',
    `smtp: { host: 127.0.0.1, port: ${sink.port}, security: none }`,
    `alarms: { webhook_url: "${receiver.url}", webhook_secret: "${secret}" }`,
  ].join('\n')
  const offers = [testOffer(upstream.baseUrl, { endpoint: { name: 'gpu-1' } })]
  const timeouts = { serverReportIntervalMs: 20, alertIntervalMs: 50 }
  const start = () => startTestApp({ database, masterKey, clock, yaml, offers, timeouts })
  apps = [await start(), await start(), await start()]
  customer = await apps[0]!.customer()
  await operatorToken(apps[0]!, 'ada@example.com')
  await operatorToken(apps[0]!, 'grace@example.com')
})
afterAll(async () => {
  for (const app of apps) await app.close()
})

async function ask(times: number): Promise<void> {
  const body = { model: 'test-model', max_tokens: 5, messages: [{ role: 'user', content: 'Hello' }] }
  for (let n = 0; n < times; n++) await (await apps[n % 3]!.chat(customer, body)).text()
}

/** Mails that mention the server. Other alarms, such as a full disk of this machine, have mails of their own. */
const mails = () => sink.mails.filter(({ source }) => source.replaceAll('=\n', '').includes('gpu-1'))
const posts = () =>
  receiver.received
    .map(({ body }) => JSON.parse(body) as { type: string; data: Record<string, unknown> })
    .filter(({ data }) => data.key === `server endpoint-${new URL(upstream.baseUrl).port}/test-model`)

test('a failing server is one mail to each operator and one signed webhook, and so is its recovery', async () => {
  upstream.always(status(500, { error: { message: 'CUDA out of memory', type: 'server_error' } }))
  await ask(15)
  await vi.waitFor(() => expect([mails().length, posts().length]).toEqual([2, 1]), WAIT_OPTIONS)
  expect(
    mails()
      .map(({ to }) => to)
      .toSorted(),
  ).toEqual(['ada@example.com', 'grace@example.com'])
  const source = mails()[0]!.source.replaceAll('=\n', '')
  expect(source).toMatch(/Subject: Switchyard: /)
  expect(source).toMatch(/\/operator\/models\?model=(3D)?test-model/)
  for (const { body, headers } of receiver.received) new Webhook(secret).verify(body, headers as Record<string, string>)
  expect(posts()[0]).toMatchObject({
    type: 'alarm.began',
    data: {
      severity: 'danger',
      message: expect.stringMatching(/^gpu-1 (fails for|gets no requests for) test-model: /),
      todo: expect.stringMatching(/^No other server of test-model works/),
      link: expect.stringMatching(/^http:.*\/operator\/models\?model=test-model$/),
    },
  })

  upstream.always(answer())
  // The breakers let requests through again, and the state of ten minutes ago counts no more.
  offsetMs += 11 * 60_000
  await ask(15)
  // Checks of the next minutes do not find it any more.
  await vi.waitFor(async () => {
    offsetMs += 1_000
    expect(posts().map(({ type }) => type)).toEqual(['alarm.began', 'alarm.ended'])
  }, WAIT_OPTIONS)
  await vi.waitFor(() => expect(mails()).toHaveLength(4), WAIT_OPTIONS)
  expect(mails().at(-1)!.source).toContain('Over: gpu-1')
})

test('a queue that stands still is reported without it', async () => {
  const before = receiver.received.length
  await database.pool.query(
    "SELECT graphile_worker.add_job('taken_by_nobody', job_key := 'late', run_at := now() - interval '5 minutes')",
  )
  await vi.waitFor(() => {
    expect(receiver.received.slice(before).map(({ body }) => JSON.parse(body).data.kind)).toContain('jobs_late')
  }, WAIT_OPTIONS)
  await database.pool.query("SELECT graphile_worker.remove_job('late')")
})

test('the overview has the disks of the nodes, and a backup ends its alarm', async () => {
  const { browser } = await signedInOperator(apps[0]!)
  const kinds = async () =>
    ((await (await browser.get('operator/overview')).json()) as Overview).alarms.map(({ kind }) => kind)
  await database.pool.query("UPDATE migration SET applied_at = now() - interval '30 days'")
  expect(await kinds()).toContain('backup_old')
  await noteBackup(database.pool, new Date(clock.epochMs() - 8 * 86_400_000))
  expect(await kinds()).toContain('backup_old')
  await noteBackup(database.pool, new Date(clock.epochMs()))
  expect(await kinds()).not.toContain('backup_old')
  expect((await readBackupState(database.pool)).lastMs).toBeGreaterThan(0)
  const { rows } = await database.pool.query<{ disks: unknown[] }>('SELECT disks FROM node_report')
  expect(rows[0]!.disks).toMatchObject([{ what: 'data', freeBytes: expect.any(Number), sizeBytes: expect.any(Number) }])
})

test('a directory that does not exist has no disk, and one disk counts once', async () => {
  expect(await measureDisks({ data: join(tmpdir(), 'no', 'such'), journal: tmpdir() })).toMatchObject([
    { what: 'journal' },
  ])
  expect(await measureDisks({ data: tmpdir(), journal: tmpdir() })).toMatchObject([{ what: 'data' }])
})

test('an alarm begins once, comes back as the same within two minutes, and ends after them', async () => {
  const alarm = {
    key: 'disk_low a data',
    kind: 'disk_low',
    severity: 'warn',
    message: 'low',
    todo: '',
    link: null,
    since: null,
  } as Alarm
  const changes = async (alarms: Alarm[], atS: number) =>
    (await transaction(emptyDatabase.pool, sql => noteAlarms(sql, alarms, atS * 1_000))).map(
      ({ key, severity, isOver }) => `${key} ${severity} ${isOver ? 'over' : 'began'}`,
    )
  expect(await changes([alarm], 1_000)).toEqual(['disk_low a data warn began'])
  expect(await changes([alarm], 1_015)).toEqual([])
  expect(await changes([], 1_100)).toEqual([])
  expect(await changes([alarm], 1_130)).toEqual([])
  expect(await changes([{ ...alarm, severity: 'danger' }], 1_145)).toEqual(['disk_low a data danger began'])
  expect(await changes([], 1_270)).toEqual(['disk_low a data danger over'])
  expect(await changes([], 1_285)).toEqual([])
  // A server that is ejected and tried again is one trouble.
  const server = { ...alarm, key: 'server_failing a/m', kind: 'server_failing' } as Alarm
  expect(await changes([server], 2_000)).toEqual(['server a/m warn began'])
  expect(await changes([{ ...server, key: 'server_ejected a/m', kind: 'server_ejected' }], 2_015)).toEqual([])
})
