import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../console/src/', import.meta.url))
const files = globSync('{features,parts}/**/*.tsx', { cwd: root }).sort()

/** Returns the tables of the console, each from its label to the end of its columns. */
function tables(): { readonly name: string; readonly source: string }[] {
  return files.flatMap(file => {
    const [, ...found] = readFileSync(`${root}${file}`, 'utf8').split(/<DataTable\n/)
    return found.map(rest => {
      const [source] = rest.split(/^ *\/>$/m)
      const [, label] = /label=\{(.+)\}/.exec(rest)!
      return {
        name: `${file}: ${label!
          .replaceAll('`', '')
          .replace(/\$\{.*?\}/g, '…')
          .replace(/^t/, '')}`,
        source: source!,
      }
    })
  })
}

/** Their rows are few, or the first ones of many, and have an order of their own. */
const inTheirOrder = [
  'features/hoster/OfferPanel.tsx: What other prices of … would do',
  'features/hoster/Trust.tsx: Conditions',
  'features/hoster/Trust.tsx: Parts of the score',
  'features/hoster/Trust.tsx: Tests for proof',
  'features/operator/Hoster.tsx: Verification',
  'features/operator/HosterTrust.tsx: Parts of the score',
  'features/operator/Sales.tsx: New customers',
  'features/operator/Sales.tsx: Top customers',
  'parts/PayoutChanges.tsx: Changes that wait',
]

test('every table can be sorted, except those with an order of their own', () => {
  const all = tables()
  expect(all.length).toBeGreaterThan(60)
  const fixed = all.filter(({ source }) => !/sortBy|sortKey|personColumn/.test(source)).map(({ name }) => name)
  expect(fixed.sort()).toEqual(inTheirOrder)
})
