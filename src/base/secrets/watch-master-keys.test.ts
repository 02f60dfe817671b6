import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { addMasterKey, loadMasterKeys } from './master-key.ts'
import { watchMasterKeys } from './watch-master-keys.ts'

let dataDir: string
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  dataDir = mkdtempSync(join(tmpdir(), 'switchyard-keys-'))
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(dataDir, { recursive: true })
})

function watched() {
  const place = { masterKey: null, dataDir }
  loadMasterKeys(place)
  const counts: number[] = []
  const errors: unknown[] = []
  const watch = watchMasterKeys({
    place,
    onKeys: keys => counts.push(keys.length) > 0,
    log: { info() {}, error: (...line: unknown[]) => void errors.push(line) } as never,
  })
  return { counts, errors, watch }
}

test('other keys in the file are read within a second', () => {
  const { counts, errors, watch } = watched()
  addMasterKey(dataDir)
  vi.advanceTimersByTime(1_000)
  expect([counts, errors]).toEqual([[1, 2], []])
  watch.stop()
})

// As root copies the file, and gives it to the gateway afterwards. Nothing is unreadable to tests that run as root, so the contents
// are wrong instead, and size and time of the file stay the same.
test('a file that could not be read is read once it can be, and the log has one line', () => {
  const { counts, errors, watch } = watched()
  const path = join(dataDir, 'master.key')
  addMasterKey(dataDir)
  const text = readFileSync(path, 'utf8')
  for (const contents of ['x'.repeat(text.length), text]) {
    writeFileSync(path, contents)
    utimesSync(path, 1, 1)
    vi.advanceTimersByTime(3_000)
  }
  expect([counts, errors.length]).toEqual([[1, 2], 1])
  watch.stop()
})
