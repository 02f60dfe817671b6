import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

// With one file thread, the callback of the second write runs after the first write has failed.
const PROGRAM = `
import { write } from 'node:fs'
const { createLog } = await import(${JSON.stringify(new URL('create-log.ts', import.meta.url).href)})
const log = createLog({ level: 'info', format: 'auto' })
log.info('is never written')
write(2, 'nor is this', error => {
  log.info('nor is that')
  process.stdout.write(error.code)
  process.exit(0)
})`

test.skipIf(!existsSync('/dev/full'))(
  'a log on a full disk neither ends the process nor delays its exit',
  async () => {
    const fullDisk = openSync('/dev/full', 'w')
    const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM], {
      env: { UV_THREADPOOL_SIZE: '1' },
      stdio: ['ignore', 'pipe', fullDisk],
      timeout: 20_000,
      killSignal: 'SIGKILL',
    })
    closeSync(fullDisk)
    const [said, [code]] = await Promise.all([text(child.stdout!), once(child, 'close')])
    expect({ said, code }).toEqual({ said: 'ENOSPC', code: 0 })
  },
  30_000,
)
