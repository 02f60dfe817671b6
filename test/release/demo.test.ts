import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

test('the demo brings six hosters into the market, keeps the books, and leaves nothing behind', async () => {
  const temporary = mkdtempSync(join(tmpdir(), 'switchyard-test-'))
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [fileURLToPath(new URL('../../demo/run.ts', import.meta.url)), '--minutes', '0.3', '--port', '0'],
      { env: { ...process.env, TMPDIR: temporary } },
    )
    expect(stdout).toContain('The market is open')
    expect(stdout).toContain('Simulated - newcomer has joined')
    expect(stdout.match(/^\S{36} +Simulated - .* active /gm)).toHaveLength(6)
    const answered = [...stdout.matchAll(/(\d+) answered/g)].at(-1)![1]
    expect(Number(answered)).toBeGreaterThan(0)
    expect(stdout).toMatch(/All \d+ checks passed/)
    expect(readdirSync(temporary)).toEqual([])
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}, 400_000)
