import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { type ErrorRow, errorTable } from '../../src/base/domain/errors.ts'

test('every 503 and 504 has a Retry-After', () => {
  for (const [code, row] of Object.entries<ErrorRow>(errorTable))
    expect(row.retryAfterS !== undefined, code).toBe(row.status === 503 || row.status === 504)
})

test('docs/errors.md equals the error table', () => {
  const page = readFileSync(new URL('../../docs/errors.md', import.meta.url), 'utf8')
  const documented = [...page.matchAll(/^\| `(\w+)` +\| (\d+) +\| `(\w+)` +\| (yes|no|) *\| (.+?) +\|$/gm)].map(
    ([, code, status, type, retry, message]) => ({ code, status: Number(status), type, retry, message }),
  )
  const coded = Object.entries<ErrorRow>(errorTable).map(([code, row]) => ({
    code,
    status: row.status,
    type: row.type,
    retry:
      row.shouldRetry === false ? 'no' : row.status === 408 || row.status === 429 || row.status >= 500 ? 'yes' : '',
    message: row.message,
  }))
  expect(documented).toEqual(coded)
})
