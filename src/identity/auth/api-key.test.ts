import { expect, test } from 'vitest'
import { hashApiKey, hasValidChecksum, hintOf, mintApiKey } from './api-key.ts'

test('a minted key has the documented format and a valid checksum', () => {
  const key = mintApiKey()
  expect(key).toMatch(/^sk-sy-[0-9A-Za-z]{38}$/)
  expect(hasValidChecksum(key)).toBe(true)
})

test('the format never changes: issued keys must keep working', () => {
  expect(hasValidChecksum(`sk-sy-${'0'.repeat(32)}26Jou8`)).toBe(true)
  expect(hashApiKey('abc')).toBe('ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=')
})

test('one changed character anywhere is detected', () => {
  const key = mintApiKey()
  for (let i = 0; i < key.length; i++) {
    const changed = key.slice(0, i) + (key[i] === 'x' ? 'y' : 'x') + key.slice(i + 1)
    expect(hasValidChecksum(changed), changed).toBe(false)
  }
})

test.each(['', 'sk-sy-', "' OR 1=1--", `sk-sy-${'é'.repeat(38)}`, `${mintApiKey()} `, `\n${mintApiKey()}`])(
  '%j is no key',
  text => expect(hasValidChecksum(text)).toBe(false),
)

test('all 62 characters occur about equally often', () => {
  const counts = new Map<string, number>()
  const keys = Array.from({ length: 2_000 }, () => mintApiKey())
  for (const key of keys) for (const char of key.slice(6, 38)) counts.set(char, (counts.get(char) ?? 0) + 1)
  expect(new Set(keys).size).toBe(keys.length)
  expect(counts.size).toBe(62)
  // 1,032 expected each, standard deviation 32: seven of them are never seen by chance, a modulo bias of 25%
  // always is.
  for (const count of counts.values()) expect(Math.abs(count - 1_032)).toBeLessThan(7 * 32)
})

test('the hint shows the first ten and the last four characters', () => {
  expect(hintOf('sk-sy-ABCDEFGHIJKLMNOPQRSTUVWXYZ012345abcdef')).toBe('sk-sy-ABCD…cdef')
})
