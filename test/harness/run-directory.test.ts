import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

// A run of tests, with a process that outlives it: a gateway or a browser.
const run = `
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { useRunDirectory } from ${JSON.stringify(fileURLToPath(new URL('./run-directory.ts', import.meta.url)))}
useRunDirectory()
mkdtempSync(join(tmpdir(), 'switchyard-test-'))
const child = spawn(process.execPath, ['--eval', 'setInterval(() => {}, 60_000)'], { detached: true, stdio: 'ignore' })
child.once('spawn', () => console.log(JSON.stringify({ directory: tmpdir(), pid: child.pid })))`

test.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
  'a run that %s ends leaves no directory and no process',
  async signal => {
    const runner = spawn(process.execPath, ['--input-type=module', '--eval', run], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [line] = await once(runner.stdout, 'data')
    const { directory, pid } = JSON.parse(line)
    expect(existsSync(directory)).toBe(true)
    runner.kill(signal)
    await expect.poll(() => [existsSync(directory), isAlive(pid)]).toEqual([false, false])
  },
)

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
