import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { databaseUrl } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'
import { eventually } from '../nodes/gateway-process.ts'

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

// Went wrong: `switchyard start | head` ended with code 0 because `head` had exited when the gateway was ready (fixed in 20c665d).
test('a gateway serves even when its standard output is closed', async () => {
  await using undo = new AsyncDisposableStack()
  const database = await createTestDatabase()
  undo.defer(() => database.drop())
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-unread-'))
  undo.defer(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'switchyard.yaml'), 'demo: { enabled: false }\ndetect: { enabled: false }\n')
  const child = spawn(process.execPath, [cli, 'start'], {
    cwd: directory,
    env: { PATH: process.env.PATH!, PORT: '0', DATABASE_URL: databaseUrl(database.connection) },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  undo.defer(() => void child.kill('SIGKILL'))
  child.stdout.destroy()
  const ended = once(child, 'close')
  const messages: string[] = []
  const listens = Promise.withResolvers<string>()
  createInterface({ input: child.stderr }).on('line', line => {
    const { msg } = JSON.parse(line)
    messages.push(msg)
    const [, url] = /^Server listening at (\S+)/.exec(msg) ?? []
    if (url !== undefined) listens.resolve(url)
  })
  const url = await listens.promise
  // The gateway prints its welcome text after this row, and well before it has answered these requests.
  await eventually(async () => {
    const { rows } = await database.pool.query("SELECT FROM installation WHERE name = 'first_run_at'")
    return rows[0]
  })
  for (let index = 0; index < 50; index++) expect((await fetch(`${url}/readyz`)).status).toBe(200)
  child.kill('SIGTERM')
  const [code] = await ended
  expect({ code, last: messages.at(-1) }).toEqual({ code: 0, last: 'stopped' })
})
