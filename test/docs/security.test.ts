import { describe, expect, test } from 'vitest'
import { readPage, tableRows } from './page.ts'
import { titlesOf } from './titles-of.ts'

const page = readPage('docs/security.md')
const attacks = tableRows(page, '#').map(([number, , result, tests]) => ({
  number: number!,
  result: result!,
  named: [...tests!.matchAll(/"(.+?)" in \[[^\]]+\]\(\.\.\/([^)]+)\)/g)].map(([, title, file]) => ({
    title: title!,
    file: file!,
  })),
}))

describe('docs/security.md', () => {
  test('lists fifty-one attacks, in order', () => {
    expect(attacks.map(({ number }) => Number(number))).toEqual(Array.from({ length: 51 }, (_, index) => index + 1))
  })

  test.each(attacks)('attack $number has tests that exist, or a reason', ({ result, named }) => {
    if (named.length === 0) expect(result).toMatch(/^(?:Does not apply|Not built): /)
    const missing = named.filter(({ title, file }) => !titlesOf(file).has(title))
    expect(missing).toEqual([])
  })

  test('the tests are named after their files', () => {
    const named = [...page.matchAll(/" in \[([^\]]+)\]\([^)]*?([^/)]+)\.test\.ts\)/g)]
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter(([, name, file]) => name !== file).map(([claim]) => claim)).toEqual([])
  })

  test('the tests behind the table of attacks exist', () => {
    const text = page.slice(page.indexOf('## Collusion of hosters'))
    const named = [...text.matchAll(/"([^"]+)"(?: and "([^"]+)")? in \[[^\]]+\]\(\.\.\/([^)]+)\)/g)]
    expect(named.length).toBeGreaterThan(5)
    const missing = named.flatMap(([, first, second, file]) =>
      [first, second].filter(title => title !== undefined && !titlesOf(file!).has(title)),
    )
    expect(missing).toEqual([])
  })
})
