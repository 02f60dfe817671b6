import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { perTokenText } from '../../console/src/features/hoster/manifest-edits.ts'
import { amountProblem, readAmount, readCount } from '../../console/src/format/typed-number.ts'

test.each([
  ['25', '25'],
  [' 0,5 ', '0.5'],
  ['12,34', '12.34'],
  ['1234.5', '1234.5'],
  ['1.000', '1.000'],
  ['0,125', '0.125'],
  ['0,00000001', '0.00000001'],
  ['', ''],
])('the amount "%s" is %s', (text, amount) => {
  expect(amountProblem(text)).toBeNull()
  expect(readAmount(text)).toBe(amount)
})

test.each([
  ['1,000', 'This can be read as 1000 or as 1.000. Write it without a comma.'],
  [' 12,500 ', 'This can be read as 12500 or as 12.500. Write it without a comma.'],
  ['1,000.50', 'Write it without separators of thousands, such as 1234.50.'],
  ['1.000,50', 'Write it without separators of thousands, such as 1234.50.'],
  ['1,000,000', 'Write it without separators of thousands, such as 1234.50.'],
])('the amount "%s" has two meanings, so it stays as it is typed', (text, problem) => {
  expect(amountProblem(text)).toBe(problem)
  expect(readAmount(text)).toBe(text.trim())
  expect(perTokenText(text)).toBe(text.trim())
})

test.each([
  ['60', 60],
  ['1,000', 1_000],
  ['128 000', 128_000],
  ['1_000_000', 1_000_000],
  ['1.000', '1.000'],
  ['1,5', '1,5'],
  ['many', 'many'],
])('the count "%s" is %s', (text, count) => {
  expect(readCount(text)).toBe(count)
})

test('every field for an amount is an AmountField', () => {
  const files = globSync('console/src/**/*.tsx').filter(file => readFileSync(file, 'utf8').includes('"decimal"'))
  expect(files).toEqual(['console/src/parts/AmountField.tsx'])
})
