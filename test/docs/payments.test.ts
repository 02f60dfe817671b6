import { describe, expect, test } from 'vitest'
import { readPage, tableRows } from './page.ts'
import { titlesOf } from './titles-of.ts'

const risks = tableRows(readPage('docs/payments.md'), '#').map(([number, what, , tests]) => ({
  number: number!,
  what: what!,
  named: [...tests!.matchAll(/"(.+?)" in \[[^\]]+\]\(\.\.\/([^)]+)\)/g)].map(([, title, file]) => ({
    title: title!,
    file: file!,
  })),
}))

describe('docs/payments.md', () => {
  test('lists twenty risks, in order', () => {
    expect(risks.map(({ number }) => Number(number))).toEqual(Array.from({ length: 20 }, (_, index) => index + 1))
  })

  test.each(risks)('risk $number has tests that exist: $what', ({ named }) => {
    expect(named).not.toEqual([])
    expect(named.filter(({ title, file }) => !titlesOf(file).has(title))).toEqual([])
  })
})
