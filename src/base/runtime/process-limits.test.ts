import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { descriptorLimit } from './process-limits.ts'

test.each([
  ['Max open files            1048576              1048576              files', 1_048_576],
  ['Max open files            unlimited            unlimited            files', Number.POSITIVE_INFINITY],
  ['Max processes             63432                63432                processes', 1_024],
  ['Max open files            none                 none                 files', 1_024],
])('the limit in "%s" is %d', (line, limit) => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-limits-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'limits')
  writeFileSync(path, `Limit                     Soft Limit           Hard Limit           Units\n${line}\n`)
  expect(descriptorLimit(path)).toBe(limit)
  expect(descriptorLimit(join(directory, 'missing'))).toBe(1_024)
})
