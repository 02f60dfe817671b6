import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tryFileLock } from '../../src/db/file-lock.ts'

test('a lock is made for its owner alone: whoever may read it could hold it', () => {
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
