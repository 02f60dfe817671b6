import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const WORKER = `
import { createServer } from 'node:net'
process.on('message', ({ kind }) => {
  if (kind === 'task') {
    const server = createServer().listen(0, '127.0.0.1', () => process.send({ kind: 'serving', port: server.address().port }))
  }
  if (kind === 'drain') process.send({ kind: 'drained' })
  if (kind === 'close') process.exit()
})
process.send({ kind: 'ready' })`

const PRIMARY = `
import { closeSync, openSync } from 'node:fs'
const { startWorkers } = await import(${JSON.stringify(new URL('../../src/start/workers/start-workers.ts', import.meta.url).href)})
const descriptors = []
const pids = []
const log = {
  info(facts, message) {
    console.log(message)
    pids.push(facts.pid)
    if (pids.length === 3) workers.stop(new AbortController().signal).then(failed => {
      console.log('stopped', failed)
      process.exit()
    })
  },
  error(facts, message) {
    console.log(message)
    if (message === 'a worker could not start') for (const descriptor of descriptors.splice(0)) closeSync(descriptor)
  },
}
const workers = startWorkers({ count: 2, program: new URL('worker.mjs', import.meta.url), task: () => ({}), drainMs: 1_000, log })
await workers.port
try {
  for (;;) descriptors.push(openSync('/dev/null', 'r'))
} catch {}
process.kill(pids[1], 'SIGKILL')`

// Went wrong: a worker whose process could not be started was forgotten, and a shutdown waited for its end forever (fixed in 9cd438a).
test('a worker whose process cannot be started is tried again, and does not block a shutdown', async () => {
  await using undo = new AsyncDisposableStack()
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-descriptors-'))
  undo.defer(() => rm(directory, { recursive: true }))
  await writeFile(join(directory, 'worker.mjs'), WORKER)
  await writeFile(join(directory, 'primary.mjs'), PRIMARY)
  const node = [process.execPath, join(directory, 'primary.mjs')]
  const { stdout } = await promisify(execFile)('sh', ['-c', 'ulimit -n 200; exec "$@"', 'sh', ...node], {
    timeout: 60_000,
  })
  expect(stdout.trim().split('\n')).toEqual([
    'a worker is serving',
    'a worker is serving',
    'a worker crashed; the requests that it was serving are free',
    'a worker could not start',
    'a worker is serving',
    'stopped 0',
  ])
})
