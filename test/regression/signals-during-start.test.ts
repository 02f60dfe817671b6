import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, test } from 'vitest'
import { databaseUrl } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

// Went wrong: only `kill -9` ended a start that waited for another process (fixed in 2af72ad).
test.each(['1', '2'])('a second signal ends a start that waits for another process; workers: %s', async workers => {
  await using undo = new AsyncDisposableStack()
  const database = await createTestDatabase()
  undo.defer(() => database.drop())
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-starting-'))
  undo.defer(() => rm(directory, { recursive: true }))
  // Holds the migration lock, like another process that migrates a large table.
  const holder = new pg.Client(database.connection)
  await holder.connect()
  undo.defer(() => holder.end())
  await holder.query('SELECT pg_advisory_lock($1)', [0x7379_6d67])

  const child = spawn(process.execPath, [cli, 'start', '--workers', workers], {
    cwd: directory,
    env: { PATH: process.env.PATH!, PORT: '0', DATABASE_URL: databaseUrl(database.connection) },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  undo.defer(() => void child.kill('SIGKILL'))
  const ended = once(child, 'close')
  const lines: string[] = []
  const waits = Promise.withResolvers<void>()
  createInterface({ input: child.stderr }).on('line', line => {
    lines.push(line)
    if (line.includes('waiting for another process')) waits.resolve()
  })
  await waits.promise
  while (child.exitCode === null) {
    child.kill('SIGTERM')
    await Promise.race([ended, sleep(200, undefined, { ref: false })])
  }
  expect({ code: child.exitCode, last: lines.at(-1) }).toEqual({
    code: 1,
    last: 'Stopped by a second signal before startup was complete.',
  })
})
