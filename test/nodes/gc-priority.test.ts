import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseUrl } from '../cli/run-cli.ts'
import { createTestDatabase } from '../harness/database.ts'
import { startGatewayProcess } from './gateway-process.ts'

test.runIf(process.platform === 'linux')('the garbage collector runs at a lower priority than requests', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'switchyard-priority-'))
  const database = await createTestDatabase()
  await writeFile(join(directory, 'switchyard.yaml'), 'demo: { enabled: false }\ndetect: { enabled: false }\n')
  const gateway = await startGatewayProcess({ directory, env: { DATABASE_URL: databaseUrl(database.connection) } })
  const niceness = new Map<string, Set<number>>()
  for (const thread of await readdir(`/proc/${gateway.pid}/task`)) {
    // `tid (name) state ...`; niceness is the 19th field of proc_pid_stat(5).
    const stat = await readFile(`/proc/${gateway.pid}/task/${thread}/stat`, 'utf8')
    const [, name, rest] = stat.match(/\((.*)\) (.*)/)!
    niceness.set(name!, (niceness.get(name!) ?? new Set()).add(Number(rest!.split(' ')[16])))
  }
  expect(await gateway.stop()).toBe(0)
  await database.drop()
  await rm(directory, { recursive: true })
  // The other threads inherit the niceness of this process.
  const own = Number((await readFile('/proc/self/stat', 'utf8')).match(/\) (.*)/)![1]!.split(' ')[16])
  expect(niceness.get('node-V8Worker')).toEqual(new Set([Math.max(own, 5)]))
  expect(niceness.get('node-MainThread')).toEqual(new Set([own]))
})
