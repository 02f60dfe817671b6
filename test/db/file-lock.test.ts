import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tryFileLock } from '../../src/base/db/file-lock.ts'

test('a lock file is created for its owner alone, since every reader could hold the lock', () => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-lock-'))
  try {
    for (const mode of ['shared', 'exclusive'] as const) {
      const path = join(directory, mode)
      tryFileLock(path, mode)!.release()
      expect(statSync(path).mode & 0o777).toBe(0o600)
      expect(statSync(path).size).toBe(0)
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('a lock writes nothing, so it can be taken on a full disk', () => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-lock-'))
  try {
    const path = join(directory, 'lock')
    const lock = tryFileLock(path, 'exclusive')!
    expect(readdirSync(directory)).toEqual(['lock'])
    expect(tryFileLock(path, 'shared')).toBeUndefined()
    expect(tryFileLock(path, 'exclusive')).toBeUndefined()
    lock.release()
    expect(statSync(path).size).toBe(0)
    tryFileLock(path, 'exclusive')!.release()
  } finally {
    rmSync(directory, { recursive: true })
  }
})
