import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tryFileLock } from '../../src/base/db/file-lock.ts'
import { openDatabase } from '../../src/base/db/open-database.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { type BackupState, readBackupState } from '../../src/operator/backup-state.ts'
import { runCli, runInProcess, sourceProgram } from '../cli/run-cli.ts'
import { type ScriptedS3, startScriptedS3 } from '../harness/scripted-s3.ts'
import { eventually, type GatewayProcess, startGatewayProcess } from '../nodes/gateway-process.ts'

// One gateway with the embedded PostgreSQL, which backs itself up to a bucket. The tests use it one after the other.
const undo = new AsyncDisposableStack()
let home: string
let dataDir: string
let s3: ScriptedS3
let gateway: GatewayProcess

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'switchyard-scheduled-'))
  undo.defer(() => rm(home, { recursive: true }))
  dataDir = join(home, 'data')
  s3 = await startScriptedS3()
  undo.defer(() => s3.close())
  const { endpoint, region, bucket, prefix, accessKeyId } = s3.place
  writeFileSync(
    join(home, 'switchyard.yaml'),
    `
detect: { enabled: false }
backup:
  to: s3://${bucket}/${prefix}
  s3:
    endpoint: ${endpoint}
    region: ${region}
    access_key_id: ${accessKeyId}
    secret_access_key: \${S3_SECRET}
  keep_days: 1
  keep_weeks: 0
`,
  )
  gateway = await startGatewayProcess({ directory: home, env })
  undo.defer(async () => void (await gateway.stop()))
})
afterAll(() => undo.disposeAsync())

const env = { S3_SECRET: 's3-test-secret' }
const run = (args: readonly string[]) => runInProcess(args, { cwd: home, env })
/** Runs a command that writes its process id to a file first. */
const runKillable = (args: readonly string[]) =>
  runCli(args, { cwd: home, env, program: ['sh', '-c', 'echo $$ > pid; exec "$@"', 'sh', ...sourceProgram] })
const kill = () => process.kill(Number(readFileSync(join(home, 'pid'), 'utf8')), 'SIGKILL')

async function withPool<T>(work: (pool: Pool) => Promise<T>): Promise<T> {
  const database = await openDatabase({ dataDir, log: { info() {}, warn() {} } })
  const pool = createPool(database.owner, { max: 1, applicationName: 'test' })
  try {
    return await work(pool)
  } finally {
    await pool.end()
    await database.close()
  }
}

/** Runs the job as the timetable does each minute, and resolves with the state once it fits. */
const stateAfterJob = (fits: (state: BackupState) => boolean) =>
  withPool(async pool => {
    await pool.query("SELECT graphile_worker.add_job('back_up', queue_name => 'backup')")
    return await eventually(async () => {
      const state = await readBackupState(pool)
      return fits(state) ? state : undefined
    })
  })

const names = () => [...s3.objects.keys()].map(key => key.slice(s3.place.prefix.length))

test('the gateway makes the first backup at once, and restores it as a test', async () => {
  const { stored, failure, test } = await stateAfterJob(state => state.test !== null || state.failure !== null)
  expect(failure).toBe(null)
  expect(names()).toEqual([stored?.name])
  expect(s3.objects.get(s3.place.prefix + stored?.name)).toHaveLength(stored?.bytes ?? 0)
  expect(test).toMatchObject({ name: stored?.name, problem: null })
  expect(readdirSync(dataDir)).not.toContain('switchyard-restore-test')
})

test('the backup is listed, complete and without the master key, and can be restored from the bucket', async () => {
  const listed = await run(['backup', 'list', '--json'])
  expect(JSON.parse(listed.stdout).backups.map(({ name }: { name: string }) => name)).toEqual(names())
  const verified = await run(['backup', 'verify'])
  expect(verified, verified.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/ is complete: \d+ files\.\n$/),
  })
  const copy = join(home, 'copy')
  const restored = await run(['restore', 'latest', '--stored', '--data', copy, '--json'])
  expect(restored.code, restored.stderr).toBe(0)
  expect(JSON.parse(restored.stdout)).toMatchObject({
    file: `${s3.place.endpoint}/backups/switchyard/${names()[0]}`,
    restored: true,
    has_master_key: false,
    has_configuration: false,
  })
  expect(restored.stderr).toContain('set SWITCHYARD_MASTER_KEY')
  expect(readdirSync(copy)).toContain('postgres')
})

test('a bucket that fails is noted, and stops nothing', async () => {
  s3.fault = request => (request === 'PUT object' ? { status: 403, code: 'AccessDenied' } : undefined)
  await withPool(pool => pool.query("DELETE FROM installation WHERE name = 'stored_backup'"))
  const { failure } = await stateAfterJob(state => state.failure !== null)
  expect(failure?.reason).toMatch(/^Cannot write .*: the access key may not do this\. .* \(403 AccessDenied\)$/)
  s3.fault = () => undefined
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(200)
  expect(names()).toHaveLength(1)
})

test('a process that is killed while it uploads leaves no backup, and the next one works', async () => {
  s3.fault = request => {
    if (request !== 'PUT object') return undefined
    kill()
    return 'cut'
  }
  const killed = await runKillable(['backup', 'run'])
  s3.fault = () => undefined
  expect(killed.code).toBe(null)
  expect(names()).toHaveLength(1)
  const next = await run(['backup', 'run', '--json'])
  expect(next.code, next.stderr).toBe(0)
  expect(names()).toContain(JSON.parse(next.stdout).name)
})

test('two processes never back up at the same time', async () => {
  const lock = tryFileLock(join(dataDir, 'backup.lock'), 'exclusive')
  for (const args of [
    ['backup', 'run'],
    ['backup', 'verify', '--restore'],
  ])
    expect(await run(args)).toMatchObject({
      code: 3,
      stderr: `Another backup or restore test of ${dataDir} is running. Try again when it has ended.\n`,
    })
  lock?.release()
})

test('a restore test that was killed is cleaned up by the next one', async () => {
  const pidFile = join(dataDir, 'switchyard-restore-test', 'postgres', 'postmaster.pid')
  const killed = runKillable(['backup', 'verify', '--restore'])
  await eventually(async () => (existsSync(pidFile) ? true : undefined))
  kill()
  expect((await killed).code).toBe(null)
  const next = await run(['backup', 'verify', '--restore'])
  expect(next, next.stderr).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/ was restored as a test, and all \d+ checks of its ledger passed\.\n$/),
  })
  expect(existsSync(join(dataDir, 'switchyard-restore-test'))).toBe(false)
})

test('a backup that is damaged in the bucket is found by the restore test, and then none is removed', async () => {
  const before = names()
  const newest = before.toSorted().at(-1) as string
  const bytes = s3.objects.get(s3.place.prefix + newest) as Buffer
  s3.objects.set(s3.place.prefix + newest, Buffer.concat([bytes.subarray(0, -2_000), bytes.subarray(-1_000)]))
  const tested = await run(['backup', 'verify', '--restore'])
  expect(tested).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('is not a complete backup, or it is damaged'),
  })
  expect(await withPool(readBackupState)).toMatchObject({
    test: { name: newest, problem: expect.stringContaining('is damaged') },
  })
  const old = 'switchyard-2020-01-01T031500Z.tar.zst'
  s3.objects.set(s3.place.prefix + old, Buffer.from('old'))
  const next = await run(['backup', 'run'])
  expect(next.code, next.stderr).toBe(0)
  expect(next.stderr).toContain('No backup is removed until one was restored in a test')
  expect(names()).toEqual(expect.arrayContaining([...before, old]))
  // The job tests the next backup at once. When it is good, the old ones go.
  const { test } = await stateAfterJob(state => state.test?.problem === null)
  expect(test?.name).not.toBe(newest)
  const last = await run(['backup', 'run', '--json'])
  expect(JSON.parse(last.stdout).removed).toEqual([old])
})

test('backups need a place in the configuration', async () => {
  const directory = join(home, 'empty')
  await mkdir(directory)
  for (const args of [
    ['backup', 'list'],
    ['backup', 'verify'],
    ['restore', 'latest', '--stored'],
  ])
    expect(await runInProcess(args, { cwd: directory })).toMatchObject({
      code: 1,
      stderr: 'The configuration has no place for backups. Set backup.to in switchyard.yaml.\n',
    })
})
