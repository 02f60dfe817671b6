import { expect, test } from 'vitest'
import type { Outcome } from '../../src/domain/handoff.ts'
import { auditChecks } from '../../src/ledger/audit.ts'
import { readPage, tableRows } from './page.ts'

const page = readPage('docs/money.md')

test('docs/money.md explains every check of the audit, in order', () => {
  expect(tableRows(page, 'check').map(([check]) => check)).toEqual(Object.keys(auditChecks))
  expect(page).toContain(`All ${Object.keys(auditChecks).length} checks hold.`)
})

test('docs/money.md says what each ending of a request costs', () => {
  const outcomes = {
    served: true,
    client_gone: true,
    refused_upstream: true,
    unserved: true,
    interrupted: true,
    shutdown: true,
    internal_error: true,
    node_died: true,
  } satisfies Record<Outcome, true>
  const documented = tableRows(page, 'ending')
    .map(([, outcome]) => outcome!)
    .filter(outcome => /^\w+$/.test(outcome))
  expect([...new Set(documented)].sort()).toEqual(Object.keys(outcomes).sort())
})
