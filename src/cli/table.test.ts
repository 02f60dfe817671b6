import { stripVTControlCharacters } from 'node:util'
import { expect, test } from 'vitest'
import { table } from './table.ts'

const linesAt = (width: number, columns: string[], rows: string[][]) =>
  stripVTControlCharacters(table(columns, rows, '', width)).split('\n')

test('columns are aligned, numbers to the right', () => {
  const rows = [
    ['ada', '5.00'],
    ['grace', '12.50'],
  ]
  expect(linesAt(80, ['name', 'USD'], rows)).toEqual(['name     USD', 'ada     5.00', 'grace  12.50'])
})

test('the longest text is broken at blanks when the table is too wide', () => {
  const rows = [
    ['FAILED', 'the quick brown fox jumps over the lazy dog', '1'],
    ['ok', 'nothing', '-'],
  ]
  expect(linesAt(40, ['state', 'finding', 'n'], rows)).toEqual([
    'state   finding                        n',
    'FAILED  the quick brown fox jumps      1',
    '        over the lazy dog',
    'ok      nothing                        -',
  ])
})

test('rows become blocks when breaking texts does not suffice, and no word is broken', () => {
  const id = '90c2b3f7-a4cb-4d6a-a580-a99027e23106'
  const rows = [
    [id, 'a key for the laptop of Ada', 'active'],
    [id, 'ci', 'revoked'],
  ]
  expect(linesAt(44, ['id', 'name', 'state'], rows)).toEqual([
    `id     ${id}`,
    'name   a key for the laptop of Ada',
    'state  active',
    '',
    `id     ${id}`,
    'name   ci',
    'state  revoked',
  ])
  expect(linesAt(30, ['id', 'name', 'state'], rows).slice(0, 4)).toEqual([
    `id     ${id}`,
    'name   a key for the laptop of',
    '       Ada',
    'state  active',
  ])
})

test('without a terminal a table has no limit', () => {
  const wide = 'x'.repeat(500)
  expect(table(['a', 'b'], [[wide, wide]], '').split('\n')).toHaveLength(2)
})
