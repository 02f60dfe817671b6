import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { serviceManager } from '../../src/start/service-manager.ts'

let directory: string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'switchyard-systemd-'))
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(directory, { recursive: true })
})

test('a slow message does not let the next one overtake it', async () => {
  const sent = join(directory, 'sent')
  const program = `#!/bin/sh\ncase $1 in RELOADING=1) sleep 0.2;; esac\necho "$1" >>"${sent}"\n`
  writeFileSync(join(directory, 'systemd-notify'), program, { mode: 0o755 })
  vi.stubEnv('PATH', `${directory}:${process.env.PATH}`)
  const manager = serviceManager({ watchdogMs: null }, { warn() {} } as never)
  manager.ready()
  manager.reloading()
  manager.ready()
  manager.stopping()
  const lines = () => (existsSync(sent) ? readFileSync(sent, 'utf8').trim().split('\n') : [])
  await expect.poll(lines, { timeout: 20_000 }).toHaveLength(4)
  expect(lines()).toEqual(['READY=1', 'RELOADING=1', 'READY=1', 'STOPPING=1'])
})
