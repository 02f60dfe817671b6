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
  if (kind === 'leave') process.exit()
})
process.send({ kind: 'here' })`

const PRIMARY = `
import { closeSync, openSync } from 'node:fs'
const { startWorkers } = await import(${JSON.stringify(new URL('../../src/start/workers/start-workers.ts', import.meta.url).href)})
const descriptors = []
const pids = []
const log = {
  info(facts, message) {
    console.log(message)
    pids.push(facts.pid)
    if (pids.length === 3) workers.stop(new AbortController().signal).then(unwell => {
      console.log('stopped', unwell)
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

test('a worker for which no process could be made is tried again, and keeps nobody from stopping', async () => {
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
    'a worker serves',
    'a worker serves',
    'a worker crashed; what it was running is free',
    'a worker could not start',
    'a worker serves',
    'stopped 0',
  ])
}, 70_000)
