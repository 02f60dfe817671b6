import { mkdtempSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { type AccessLogSettings, openAccessLog } from '../../src/http/access-log.ts'
import { testOffer } from '../harness/app.ts'
import { status } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const directory = useResource(
  async () => ({ path: mkdtempSync(join(tmpdir(), 'switchyard-access-')) }),
  async ({ path }) => rmSync(path, { recursive: true }),
)
const fileAt = (name: string) => join(directory.path, name)
const linesOf = (name: string) =>
  readFileSync(fileAt(name), 'utf8')
    .split('\n')
    .filter(line => line !== '')

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [testOffer(upstream.baseUrl)],
  yaml: `access_log: { format: json, file: "${fileAt('deep/access.log')}" }`,
}))
const customer = useCustomer(gateway)
const hello = { model: 'test-model', messages: [{ role: 'user', content: 'a secret prompt' }] }

test('each generation request has one line with its charge, its server and its error', async () => {
  const served = await gateway.chat(customer, hello)
  await (await gateway.chat(customer, { ...hello, stream: true })).text()
  await gateway.chat(customer, { ...hello, model: 'unknown' })
  await gateway.chat({ ...customer, key: 'sk-sy-wrong' }, hello)
  upstream.respondWith(status(500))
  await gateway.chat(customer, hello)
  await vi.waitFor(() => expect(linesOf('deep/access.log')).toHaveLength(5), WAIT_OPTIONS)
  const lines = linesOf('deep/access.log').map(line => JSON.parse(line))
  expect(lines.map(({ status, code, outcome }) => [status, code, outcome])).toEqual([
    [200, null, 'served'],
    [200, null, 'served'],
    [404, 'model_not_found', null],
    [401, 'invalid_api_key', null],
    [500, expect.any(String), expect.any(String)],
  ])
  const cost = served.headers.get('x-switchyard-cost-usd')
  expect(lines[0]).toMatchObject({
    ...{ id: served.headers.get('x-request-id'), path: '/v1/chat/completions', customer: customer.customerId },
    ...{ model: 'test-model', provider: 'local', attempts: 1, cost_usd: cost },
  })
  expect(lines[3]).toMatchObject({ customer: null, key: null, model: null, cost_usd: '0.00' })
  const text = linesOf('deep/access.log').join('\n')
  expect(text).not.toContain('secret')
  expect(text).not.toContain('sk-sy-')
})

const refused = {
  requestId: 'id',
  traceId: null,
  path: '/p',
  caller: undefined,
  status: 401,
  code: 'invalid_api_key',
  elapsedMs: 1.4,
} as const

function openLog(name: string, settings: Partial<AccessLogSettings>) {
  const clock = { nowMs: 0, epochMs: () => 0, monotonicMs: () => clock.nowMs }
  const draws = [0.1, 0.6, 0.4, 0.9]
  const file = fileAt(name)
  const log = openAccessLog({
    settings: { format: 'short', samplePercent: 100, file, ...settings },
    clock,
    random: () => draws.shift() ?? 0,
    log: { warn() {} },
  })
  if (log === null) throw new Error('the log is off')
  return { log, clock }
}

test('a sample has all errors, and lines for people are short', async () => {
  const { log } = openLog('sample.log', { samplePercent: 50 })
  for (let n = 0; n < 4; n++) log.ended({ ...refused, requestId: `fine-${n}`, status: 200, code: null })
  log.ended(refused)
  log.close()
  await vi.waitFor(() => expect(linesOf('sample.log')).toHaveLength(3), WAIT_OPTIONS)
  expect(linesOf('sample.log').map(line => line.split(' ').at(-1))).toEqual(['fine-0', 'fine-2', 'id'])
  expect(linesOf('sample.log')[2]).toBe('1970-01-01T00:00:00.000Z 401/invalid_api_key 1ms /p -@- 0+0 0.00 - - id')
})

test('a file that was moved away is made again within a second', async () => {
  const { log, clock } = openLog('rotated.log', { format: 'json' })
  log.ended(refused)
  await vi.waitFor(() => expect(linesOf('rotated.log')).toHaveLength(1), WAIT_OPTIONS)
  renameSync(fileAt('rotated.log'), fileAt('rotated.log.1'))
  clock.nowMs += 1_000
  log.ended(refused)
  log.close()
  await vi.waitFor(() => expect(linesOf('rotated.log')).toHaveLength(1), WAIT_OPTIONS)
  expect(linesOf('rotated.log.1')).toHaveLength(1)
})

test('while a moved file cannot be made again, lines are lost and no request fails', async () => {
  const { log, clock } = openLog('gone/access.log', { format: 'json' })
  log.ended(refused)
  await vi.waitFor(() => expect(linesOf('gone/access.log')).toHaveLength(1), WAIT_OPTIONS)
  expect(statSync(fileAt('gone/access.log')).mode & 0o777).toBe(0o600)
  renameSync(fileAt('gone'), fileAt('moved'))
  writeFileSync(fileAt('gone'), 'a file in the place of the directory')
  for (let n = 0; n < 3; n++) {
    clock.nowMs += 1_000
    log.ended(refused)
  }
  rmSync(fileAt('gone'))
  clock.nowMs += 1_000
  log.ended({ ...refused, requestId: 'after' })
  log.close()
  await vi.waitFor(() => expect(linesOf('gone/access.log')).toEqual([expect.stringContaining('after')]), WAIT_OPTIONS)
})

test('a file that cannot be written is refused with its setting', () => {
  expect(() => openLog('.', {})).toThrow(/access log cannot be written: EISDIR.*Set access_log.file to another file/s)
})
