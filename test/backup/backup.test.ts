import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openDatabase } from '../../src/base/db/open-database.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { readBackupState } from '../../src/operator/backup-state.ts'
import { type CliRun, runCli, sourceProgram } from '../cli/run-cli.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from '../nodes/gateway-process.ts'

// One gateway with the embedded PostgreSQL, as an operator runs it. The tests use it one after the other.
const undo = new AsyncDisposableStack()
let parent: string
let home: string
let gateway: GatewayProcess
let key: string
let backup: string
/** The requests that were answered before the backup began, and those that the original has charged. */
let answeredBefore: readonly string[]

const config = `
demo: { tokens_per_second: 1000000, first_token_ms: 0 }
detect: { enabled: false }
account_tiers: { free: { requests_per_minute: 1000000, requests_per_day: 1000000 } }
`

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'switchyard-backup-'))
  undo.defer(() => rm(parent, { recursive: true }))
  home = join(parent, 'original')
  await mkdir(home)
  writeFileSync(join(home, 'switchyard.yaml'), config)
  gateway = await startGatewayProcess({ directory: home })
  undo.defer(async () => void (await gateway.stop()))
  key = /sk-sy-\w+/.exec(gateway.output())![0]
})
afterAll(() => undo.disposeAsync())

const run = (args: readonly string[], options: Partial<Parameters<typeof runCli>[1]> = {}): Promise<CliRun> =>
  runCli(args, { cwd: home, ...options })

async function chat({ url }: GatewayProcess): Promise<string> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', max_tokens: 4, messages: [{ role: 'user', content: 'Hello!' }] }),
  })
  expect(response.status, await response.text()).toBe(200)
  return response.headers.get('x-request-id')!
}

/** Runs `work` on the database of a data directory, which another process may have open. */
async function withPool<T>(dataDir: string, work: (pool: Pool) => Promise<T>): Promise<T> {
  const database = await openDatabase({ dataDir, log: { info() {}, warn() {} } })
  const pool = createPool(database.owner, { max: 1, applicationName: 'test' })
  try {
    return await work(pool)
  } finally {
    await pool.end()
    await database.close()
  }
}

async function chargedRequests(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ request_id: string }>('SELECT request_id FROM usage_event WHERE cost_nanos > 0')
  return rows.map(row => row.request_id)
}

test('a backup is written while requests are served', async () => {
  const answered: string[] = []
  let isOver = false
  const clients = Array.from({ length: 4 }, async () => {
    // The customer may send 300 requests in a minute, and the tests below send some too.
    while (!isOver && answered.length < 150) answered.push(await chat(gateway))
  })
  await eventually(async () => (answered.length >= 20 ? true : undefined))
  answeredBefore = [...answered]
  const { code, stdout, stderr } = await run(['backup', '--json', `${parent}/`])
  isOver = true
  await Promise.all(clients)
  expect(code, stderr).toBe(0)
  expect(answered.length).toBeGreaterThan(answeredBefore.length)
  const result = JSON.parse(stdout)
  backup = result.file
  expect(result).toEqual({
    file: expect.stringMatching(/\/switchyard-\d{4}-\d\d-\d\dT\d{6}Z\.tar\.zst$/),
    bytes: statSync(backup).size,
    started_at: expect.any(String),
    has_master_key: true,
    has_configuration: true,
  })
  expect(statSync(backup).mode & 0o777).toBe(0o600)
  expect((await withPool(join(home, 'data'), readBackupState)).lastMs).toBe(Date.parse(result.started_at))
})

test('its restored copy has every charge from before, a clean audit, and serves', async () => {
  const dataDir = join(parent, 'copy', 'data')
  const restored = await run(['restore', backup, '--data', dataDir, '--json'])
  expect(restored.code, restored.stderr).toBe(0)
  expect(JSON.parse(restored.stdout)).toMatchObject({ restored: true, data_dir: dataDir, has_master_key: true })
  expect(restored.stderr).toContain(`Its configuration is ${dataDir}/switchyard.yaml`)
  expect(readdirSync(dataDir).sort()).toEqual(
    expect.arrayContaining(['master.key', 'postgres', 'postgres.json', 'switchyard.yaml']),
  )
  for (const name of ['master.key', 'postgres.json', 'switchyard.yaml'])
    expect(statSync(join(dataDir, name)).mode & 0o777, name).toBe(0o600)
  expect(readFileSync(join(dataDir, 'master.key'))).toEqual(readFileSync(join(home, 'data', 'master.key')))
  // A login of the original, which a lost backup would reveal, does not work.
  const passwordIn = (directory: string) => JSON.parse(readFileSync(join(directory, 'postgres.json'), 'utf8')).password
  expect(passwordIn(dataDir)).not.toBe(passwordIn(join(home, 'data')))

  const env = { SWITCHYARD_DATA: dataDir, SWITCHYARD_CONFIG: join(dataDir, 'switchyard.yaml') }
  const copy = await startGatewayProcess({ directory: join(parent, 'copy'), env })
  try {
    const ownRequest = await chat(copy)
    await eventually(() =>
      withPool(dataDir, async pool => ((await chargedRequests(pool)).includes(ownRequest) ? true : undefined)),
    )
    const charged = new Set(await withPool(dataDir, chargedRequests))
    expect(answeredBefore.filter(requestId => !charged.has(requestId))).toEqual([])
  } finally {
    expect(await copy.stop()).toBe(0)
  }
  const audit = await run(['ledger', 'audit'], { env })
  expect(audit.code, audit.stdout).toBe(0)
  expect((await withPool(dataDir, pool => pool.query('SELECT FROM lease'))).rowCount).toBe(0)
  const original = await withPool(join(home, 'data'), chargedRequests)
  expect(original).toEqual(expect.arrayContaining([...answeredBefore]))
})

test('a backup that is killed leaves no file that looks complete, and the next one works', async () => {
  const file = join(parent, 'killed.tar.zst')
  await withPool(join(home, 'data'), async pool => {
    // The backup waits for a checkpoint, which a stopped process cannot make.
    const checkpointer = childOf(postmaster(), 'checkpointer')
    process.kill(checkpointer, 'SIGSTOP')
    try {
      const killed = run(['backup', file], { program: killable })
      await eventually(async () => {
        const { rows } = await pool.query(
          "SELECT FROM pg_stat_progress_basebackup WHERE phase = 'waiting for checkpoint to finish'",
        )
        return rows[0]
      })
      process.kill(Number(readFileSync(join(home, 'pid'), 'utf8')), 'SIGKILL')
      expect((await killed).code).toBe(null)
    } finally {
      process.kill(checkpointer, 'SIGCONT')
    }
    expect(readdirSync(parent).filter(name => name.startsWith('killed'))).toEqual(['killed.tar.zst.unfinished'])
    // PostgreSQL notices that the session ended, and then keeps no WAL for it.
    await eventually(async () =>
      (await pool.query('SELECT FROM pg_replication_slots')).rowCount === 0 ? true : undefined,
    )
  })
  const check = await run(['restore', `${file}.unfinished`, '--check'])
  expect(check).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is not a complete backup, or it is damaged'),
  })
  const again = await run(['backup', file])
  expect(again).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('.unfinished already exists: another backup'),
  })
  await rm(`${file}.unfinished`)
  const next = await run(['backup', file])
  expect(next, next.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^Wrote .*\/killed\.tar\.zst \(\d+\.\d MB\)\.\n$/),
  })
  expect((await run(['backup', file])).stderr).toBe(
    `${file} already exists. Choose another name, or delete that file first.\n`,
  )
})

const postmaster = () => Number(readFileSync(join(home, 'data', 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])

/** The process id of a child whose command line ends with this word. */
function childOf(parentPid: number, word: string): number {
  const read = (pid: string, name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8')
  const children = read(String(parentPid), `task/${parentPid}/children`).trim().split(' ')
  return Number(children.find(pid => read(pid, 'cmdline').split('\0').join(' ').trim().endsWith(word)))
}

/** Writes its process id to a file first. */
const killable = ['sh', '-c', 'echo $$ > pid; exec "$@"', 'sh', ...sourceProgram]

test('a full disk is reported, and leaves no file', async () => {
  const file = join(parent, 'full.tar.zst')
  // Fails like a disk that fills up.
  const program = ['sh', '-c', 'ulimit -f 64; exec "$@"', 'sh', ...sourceProgram]
  const { code, stderr } = await run(['backup', file], { program })
  expect([code, stderr]).toEqual([1, `Cannot write ${file}: file too large.\n`])
  const dataDir = join(parent, 'too-small', 'data')
  const restored = await run(['restore', backup, '--data', dataDir], { program })
  expect([restored.code, restored.stderr]).toEqual([
    1,
    `Cannot restore into ${dataDir}: file too large. Nothing was restored.\n`,
  ])
  expect(readdirSync(dataDir)).toEqual(['postgres.start.lock'])
  expect(readdirSync(parent).filter(name => name.startsWith('full'))).toEqual([])
})

test('a charge that is only in the journal is in the backup, and settled by the first start', async () => {
  const directory = join(parent, 'crashed')
  await mkdir(directory)
  writeFileSync(join(directory, 'switchyard.yaml'), config)
  const crashing = await startGatewayProcess({
    directory,
    env: { SWITCHYARD_FAILPOINTS: 'settlements-before-send:kill' },
  })
  const ownKey = /sk-sy-\w+/.exec(crashing.output())![0]
  await fetch(`${crashing.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ownKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'demo', max_tokens: 4, messages: [{ role: 'user', content: 'Hello!' }] }),
  }).then(
    response => response.text(),
    () => {},
  )
  expect(await crashing.ended).toBe('SIGKILL')
  const file = join(directory, 'backup.tar.zst')
  expect(await runCli(['backup', file], { cwd: directory })).toMatchObject({ code: 0 })
  expect(await withPool(join(directory, 'data'), chargedRequests)).toEqual([])

  const dataDir = join(parent, 'replayed')
  expect(await runCli(['restore', file, '--data', dataDir], { cwd: directory })).toMatchObject({ code: 0 })
  const env = { SWITCHYARD_DATA: dataDir }
  const replaying = await startGatewayProcess({ directory, env })
  expect(await replaying.stop()).toBe(0)
  expect(await withPool(dataDir, chargedRequests)).toHaveLength(1)
  expect(await runCli(['ledger', 'audit'], { cwd: directory, env })).toMatchObject({ code: 0 })
})

test('restore refuses a data directory that is in use or not empty, and a database elsewhere', async () => {
  const running = await run(['restore', backup])
  expect(running).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^A Switchyard server is running on .* Stop it/),
  })
  const other = await run(['restore', backup, '--data', home])
  expect(other.stderr).toMatch(/ is not empty \(data, .*switchyard\.yaml\)\. A backup is restored into an empty/)
  const env = { DATABASE_URL: 'postgres://me:secret@127.0.0.1:1/none' }
  for (const args of [['backup'], ['restore', backup, '--data', join(parent, 'new')]]) {
    const { code, stderr } = await run(args, { env })
    expect([code, stderr]).toEqual([1, expect.stringMatching(/DATABASE_URL.* (pg_dump|its own means)/)])
  }
  const none = await run(['backup'], { env: { SWITCHYARD_DATA: join(parent, 'none') } })
  expect(none).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no database in') })
  const missing = await run(['restore', 'missing.tar.zst', '--check'])
  expect(missing).toMatchObject({
    code: 1,
    stderr: `Cannot read ${home}/missing.tar.zst: no such file or directory.\n`,
  })
  const nowhere = await run(['backup', join(home, 'switchyard.yaml', 'backup')])
  expect(nowhere).toMatchObject({ code: 1, stderr: expect.stringMatching(/^Cannot write .*: not a directory\.\n$/) })
})
