import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { databaseUrl, runInProcess } from '../cli/run-cli.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { startGatewayProcess } from '../nodes/gateway-process.ts'

const db = useTestDatabase('test')
const directory = mkdtempSync(join(tmpdir(), 'switchyard-rotation-'))
afterAll(() => rmSync(directory, { recursive: true }))

const env = () => ({ DATABASE_URL: databaseUrl(db.connection), SWITCHYARD_DATA: join(directory, 'data') })

async function command(args: string[], more: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runInProcess([...args, '--json'], {
    cwd: directory,
    env: { ...env(), ...more },
  })
  return { code, stderr, result: code === 0 ? JSON.parse(stdout) : undefined }
}

interface ShownNode {
  readonly keys: readonly string[]
}

test('workers take the new key of the file, seal with it, and let go of the former one', async () => {
  const gateway = await startGatewayProcess({ directory, args: ['--workers', '2'], env: env() })
  try {
    const rotated = await command(['key-ring', 'rotate'])
    expect(rotated.code, rotated.stderr).toBe(0)
    const { key, former } = rotated.result
    const keysOfNodes = async () =>
      (await command(['key-ring', 'status'])).result.nodes.map(({ keys }: ShownNode) => keys)
    await expect.poll(keysOfNodes, { timeout: 60_000 }).toEqual(Array(2).fill([key, former]))
    const forgotten = await command(['key-ring', 'forget', '--yes'])
    expect(forgotten.code, forgotten.stderr).toBe(0)
    await expect.poll(keysOfNodes, { timeout: 60_000 }).toEqual(Array(2).fill([key]))
    expect(
      readFileSync(join(directory, 'data', 'master.key'), 'utf8')
        .trim()
        .split('\n'),
    ).toHaveLength(1)
  } finally {
    await gateway.stop()
  }
}, 240_000)

test('keys of the environment are added by hand, and rotated by one command', async () => {
  const [old, next] = [randomBytes(32).toString('hex'), randomBytes(32).toString('hex')]
  expect((await command(['init', '--email', 'a@example.com'], { SWITCHYARD_MASTER_KEY: old })).code).toBe(0)
  await command(['key-ring', 'status'], { SWITCHYARD_MASTER_KEY: old })
  const alone = await command(['key-ring', 'rotate'], { SWITCHYARD_MASTER_KEY: old })
  expect(alone.stderr).toContain('which this command cannot change. Add a new key behind the present one')
  const both = { SWITCHYARD_MASTER_KEY: `${old},${next}` }
  const rotated = await command(['key-ring', 'rotate'], both)
  expect(rotated.code, rotated.stderr).toBe(0)
  // The message names the old key, which stands first, by its place in the variable.
  const forgotten = await runInProcess(['key-ring', 'forget', '--yes'], { cwd: directory, env: { ...env(), ...both } })
  const { key, former } = rotated.result
  expect(forgotten.stdout).toBe(
    `Of the 2 keys in SWITCHYARD_MASTER_KEY, remove number 1 (${former}) and keep number 2 (${key}).\n`,
  )
  expect((await command(['key-ring', 'forget', '--yes'], both)).result).toEqual({ forgotten: [], removed_here: [] })
  expect((await command(['key-ring', 'status'], { SWITCHYARD_MASTER_KEY: next })).code).toBe(0)
  const wrong = await command(['key-ring', 'status'], { SWITCHYARD_MASTER_KEY: old })
  expect(wrong.stderr).toContain('does not have the master key that the servers seal with')
})
