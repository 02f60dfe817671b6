import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { countNonNull } from '../../scripts/non-null-assertions.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(root + file, 'utf8')

/**
 * The non-null assertions of src. Lower it when there are fewer. What remains is proven where it stands: indexes of loops over tokens,
 * bytes and prices, which run for each request, and rows that the same transaction has written.
 */
const NON_NULL_MAX = 147

test('src asserts no more often than before that a value is there', () => {
  const files = globSync('src/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] })
  const count = files.reduce((sum, file) => sum + countNonNull(read(file)), 0)
  expect(
    count,
    'instead of `value!`: queryRow for the row of a statement, groupBy, elementAt, valueAt and drawOne of collections.ts, or a type that says it',
  ).toBeLessThanOrEqual(NON_NULL_MAX)
})

test('addresses and search parameters of the console are typed, so no cast hides a wrong link', () => {
  const files = globSync('console/src/**/*.{ts,tsx}', { cwd: root })
  expect(files.filter(file => /\bas never\b/.test(read(file)))).toEqual([])
})
