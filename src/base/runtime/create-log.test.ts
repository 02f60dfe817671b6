import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { createLog } from './create-log.ts'

// With one file thread, the callback of the second write runs after the first write has failed.
const PROGRAM = `
import { write } from 'node:fs'
const { createLog } = await import(${JSON.stringify(new URL('create-log.ts', import.meta.url).href)})
const log = createLog({ level: 'info', format: 'auto' }, () => false)
log.info('is never written')
write(2, 'nor is this', error => {
  log.info('nor is that')
  process.stdout.write(error.code)
  process.exit(0)
})`

test.skipIf(!existsSync('/dev/full'))(
  'a log on a full disk neither ends the process nor delays its exit',
  async () => {
    const fullDisk = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
      env: { UV_THREADPOOL_SIZE: '1' },
      stdio: ['ignore', 'pipe', fullDisk],
      timeout: 20_000,
      killSignal: 'SIGKILL',
    })
    closeSync(fullDisk)
    const [said, [code]] = await Promise.all([text(child.stdout!), once(child, 'close')])
    expect({ said, code }).toEqual({ said: 'ENOSPC', code: 0 })
  },
  30_000,
)

function createTestLog(isOutage = (_error: Error) => true) {
  const lines: Record<string, unknown>[] = []
  let nowMs = 0
  const destination = { write: (line: string) => lines.push(JSON.parse(line)) }
  const log = createLog({ level: 'info', format: 'json' }, isOutage, destination, { monotonicMs: () => nowMs })
  return {
    log,
    lines,
    pass(ms: number) {
      nowMs += ms
    },
  }
}

test('an error has its message and its code under any name, also inside of other fields', () => {
  const { log, lines } = createTestLog()
  const error = Object.assign(new Error('connect failed'), { code: 'ECONNREFUSED', password: 'secret' })
  log.error({ jobs: true, error, tried: [{ reason: error }] }, 'failed')
  log.error(new AggregateError([error]), 'failed at each address')
  const shown = { message: 'connect failed', code: 'ECONNREFUSED' }
  expect(lines[0]).toMatchObject({ jobs: true, error: shown, tried: [{ reason: shown }] })
  expect(lines[1]).toMatchObject({ err: { errors: [shown] } })
  expect(JSON.stringify(lines)).not.toContain('secret')
})

test('an error that repeats is logged once a minute, with the number of lines that were left out', () => {
  const { log, lines, pass } = createTestLog()
  const refused = () => Object.assign(new Error('connect failed'), { code: 'ECONNREFUSED' })
  for (let second = 0; second < 38; second++) {
    log.warn({ err: refused() }, 'the heartbeat did not reach the database; trying again')
    log
      .child({ worker: 2 })
      .error({ err: refused(), requestId: second, code: 'database_unavailable' }, 'request failed')
    pass(1_000)
  }
  expect(lines.map(({ msg }) => msg)).toEqual([
    'the heartbeat did not reach the database; trying again',
    'request failed',
  ])
  // Another state of the outage is a line of its own.
  log.warn(
    { err: Object.assign(refused(), { code: '57P03' }) },
    'the heartbeat did not reach the database; trying again',
  )
  expect(lines).toHaveLength(3)
  pass(22_000)
  log.warn({ err: refused() }, 'the heartbeat did not reach the database; trying again')
  expect(lines.at(-1)).toMatchObject({ repeated: 37, err: { code: 'ECONNREFUSED' } })
})

test('an error that repeats in messages with figures is logged once a minute too', () => {
  const { log, lines } = createTestLog()
  for (let attempt = 1; attempt < 12; attempt++) {
    const error = new Error('Connection terminated unexpectedly')
    log.error({ error }, `Cron hit an error; restarting in ${attempt * 1.5}ms (attempt ${attempt}): ${error}`)
  }
  expect(lines).toHaveLength(1)
})

test('errors that are no outage are all logged, whatever the lines name', () => {
  const { log, lines } = createTestLog(() => false)
  const refused = () => Object.assign(new Error('connect failed'), { code: 'ECONNREFUSED' })
  for (const mailId of [1, 2, 3]) log.error({ err: refused(), mailId }, 'a mail could not be sent')
  for (const requestId of [1, 2]) log.error({ err: refused(), requestId, code: 'all_hosters_failed' }, 'request failed')
  expect(lines).toHaveLength(5)
})

test('the values of a message that has places for them are kept', () => {
  const { log, lines } = createTestLog()
  log.info({ part: 'x' }, '%s of %d', 'first', 2)
  expect(lines).toMatchObject([{ part: 'x', msg: 'first of 2' }])
})

test('an error that is the cause of its own cause is written', () => {
  const { log, lines } = createTestLog()
  const error = new Error('outer')
  error.cause = new Error('inner', { cause: error })
  log.error({ err: error }, 'failed')
  expect(lines).toMatchObject([{ err: { message: 'outer', cause: { message: 'inner', cause: { message: 'outer' } } } }])
})
