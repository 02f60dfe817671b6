import { expect, test } from 'vitest'
import type { Outcome } from '../../src/base/domain/handoff.ts'
import { auditChecks } from '../../src/money/ledger/audit/audit-checks.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/money.md')

test('docs/money.md explains every check of the audit, in order', () => {
  expect(tableRows(page, 'check').map(([check]) => check)).toEqual(Object.keys(auditChecks))
  expect(page).toContain(`All ${Object.keys(auditChecks).length} checks passed in `)
})

test('every row of what is billed is a test with the same name, and the reverse', () => {
  const tests = readPage('test/billing/what-is-billed.test.ts')
  const titles = [...tests.matchAll(/^ {2}it\(\s*(['"])(.+?)\1,/gm)].map(([, , title]) => title)
  const rows = tableRows(page, 'ending').filter(([, outcome]) => outcome !== 'not built yet')
  expect(titles.sort()).toEqual(rows.map(([ending]) => ending).sort())
})

test('README.md promises no more than docs/money.md', () => {
  for (const text of [readPage('README.md'), page])
    expect(text).toMatch(/between\s+the\s+recording\s+of\s+(its|the)\s+charge\s+and\s+(its|the)\s+last\s+byte/)
})

test('docs/money.md states the cost of each outcome', () => {
  const outcomes = {
    served: true,
    client_gone: true,
    refused_upstream: true,
    unserved: true,
    interrupted: true,
    shutdown: true,
    internal_error: true,
    node_died: true,
    superseded: true,
  } satisfies Record<Outcome, true>
  const documented = tableRows(page, 'ending')
    .map(([, outcome]) => outcome!)
    .filter(outcome => /^\w+$/.test(outcome))
  expect([...new Set(documented)].sort()).toEqual(Object.keys(outcomes).sort())
})
