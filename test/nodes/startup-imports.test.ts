import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { databaseUrl } from '../cli/run-cli.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { startGatewayProcess } from './gateway-process.ts'

const database = useTestDatabase()
let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'switchyard-loads-'))
})
afterAll(() => rm(directory, { recursive: true }))

test('a start from the compile cache loads neither the type stripper nor fetch, which take 33 MB', async () => {
  const list = join(directory, 'loaded.json')
  const listing = join(directory, 'listing.mjs')
  await writeFile(
    listing,
    `import { writeFileSync } from 'node:fs'
process.on('exit', () => writeFileSync(${JSON.stringify(list)}, JSON.stringify(process.moduleLoadList)))`,
  )
  await writeFile(join(directory, 'switchyard.yaml'), 'demo: { enabled: false }\ndetect: { enabled: false }\n')
  const env = { DATABASE_URL: databaseUrl(database.connection), NODE_OPTIONS: `--import ${pathToFileURL(listing)}` }
  // The first start fills the cache.
  for (const _ of ['first', 'second']) {
    const gateway = await startGatewayProcess({ directory, env })
    expect(await gateway.stop()).toBe(0)
  }
  const loaded: string[] = JSON.parse(await readFile(list, 'utf8'))
  expect(loaded.filter(name => /amaro|undici/.test(name))).toEqual([])
  // Proves that the list is the gateway's, and that names have this form.
  expect(loaded).toContain('NativeModule _http_server')
})
