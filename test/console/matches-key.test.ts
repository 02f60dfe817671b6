import { expect, test } from 'vitest'
import { matchesKey } from '../../console/src/shell/matches-key.ts'

const key = { name: 'Laptop of Ada', hint: 'sk-sy-V4AZ…aAEd' }

test.each([
  ['laptop', true],
  ['sk-sy-V4AZ…aAEd', true],
  ['sk-sy-V4AZ...aAEd', true],
  ['sk-sy-V4AZ', true],
  ['sk-sy-V4', true],
  ['aAEd', true],
  [`sk-sy-V4AZ${'x'.repeat(30)}aAEd`, true],
  [`sk-sy-V4AZ${'x'.repeat(30)}aAEx`, false],
  ['sk-sy-', false],
  ['AEd', false],
  ['', false],
])('a key is found by %j: %s', (text, isFound) => {
  expect(matchesKey(key, text)).toBe(isFound)
})
