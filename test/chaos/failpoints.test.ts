import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { failpoints } from '../../src/base/runtime/failpoint.ts'
import { readPage, tableRows } from '../docs/page.ts'
import { crashes } from './crash-at-failpoint.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const sources = globSync('src/**/*.ts', { cwd: root, exclude: path => path.endsWith('.test.ts') })
const passed = sources
  .flatMap(path => [...readFileSync(`${root}/${path}`, 'utf8').matchAll(/\bfailpoint\(['`]([^'`]*)['`]\)/g)])
  .flatMap(([, name]) => namesOf(name!))

/** Payments and payouts share some calls. */
function namesOf(name: string): string[] {
  const [start, end] = name.split(/\$\{name\}/)
  return end === undefined ? [start!] : ['payment', 'payout'].map(kind => `${kind}${end}`)
}

test('each failpoint occurs exactly once in the code', () => {
  expect(passed.toSorted()).toEqual(Object.keys(failpoints).toSorted())
})

test('the chaos suite has a crash for each failpoint, and the tests of payments, payouts and moves have one for each of theirs', () => {
  const paid = Object.keys(failpoints).filter(name => /^(payment|payout|cell-move)-/.test(name))
  const broken = ['payments/stripe', 'payments/auto-top-up', 'payouts/stripe-connect', 'cells/move']
    .map(name => readFileSync(`${root}/test/${name}.test.ts`, 'utf8'))
    .join()
  for (const name of paid) expect(broken).toContain(`'${name}'`)
  expect([...Object.keys(crashes), ...paid].toSorted()).toEqual(Object.keys(failpoints).toSorted())
})

test('docs/chaos.md describes each failpoint and the cost of its request', () => {
  const documented = tableRows(readPage('docs/chaos.md'), 'failpoint')
  const known = Object.entries(failpoints).map(([name, truth]) => [
    name,
    truth,
    crashes[name as keyof typeof crashes]?.victim ?? '-',
  ])
  expect(documented).toEqual(known)
})
