import { expect, test } from 'vitest'
import { usageEventColumns } from '../../src/money/usage/events/usage-event-columns.ts'
import { readPage, tableRows } from './page.ts'

test('docs/operating.md has every column of an export, in its order', () => {
  const documented = tableRows(readPage('docs/operating.md'), 'column of an export')
  const real = Object.entries(usageEventColumns).map(([name, { type, isNullable }]) => [
    name,
    type,
    isNullable ? 'yes' : '',
  ])
  expect(documented.map(([name, type, isNull]) => [name, type, isNull])).toEqual(real)
})
