import { expect, test } from 'vitest'
import { nextOrder, type SortOrder, sortRows } from '../../console/src/parts/sort-rows.ts'

const rows = [
  { name: 'gpu-10', usd: 2 },
  { name: 'gpu-2', usd: null },
  { name: 'Cloud', usd: -1 },
  { name: 'gpu-1', usd: 2 },
]
const names = (sorted: readonly { readonly name: string }[]) => sorted.map(({ name }) => name)

test('numbers in names sort as numbers, and capitals as small letters', () => {
  expect(names(sortRows(rows, ({ name }) => name, false))).toEqual(['Cloud', 'gpu-1', 'gpu-2', 'gpu-10'])
})

test('rows without a figure come last in both directions, and equal ones keep their order', () => {
  const usd = (row: (typeof rows)[number]) => row.usd
  expect(names(sortRows(rows, usd, true))).toEqual(['gpu-10', 'gpu-1', 'Cloud', 'gpu-2'])
  expect(names(sortRows(rows, usd, false))).toEqual(['Cloud', 'gpu-10', 'gpu-1', 'gpu-2'])
})

test('the third click brings back the first order', () => {
  const clicks = (column: string, isFigure: boolean) => {
    const first = nextOrder(null, column, isFigure)
    const second = nextOrder(first, column, isFigure)
    return [first, second, nextOrder(second, column, isFigure)]
  }
  const order = (column: string, isDescending: boolean): SortOrder => ({ column, isDescending })
  expect(clicks('USD', true)).toEqual([order('USD', true), order('USD', false), null])
  expect(clicks('Model', false)).toEqual([order('Model', false), order('Model', true), null])
  expect(nextOrder(order('USD', true), 'Model', false)).toEqual(order('Model', false))
})
