import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../../console/src/', import.meta.url))
const sources = globSync('**/*.tsx', { cwd: root }).map(file => ({
  file,
  source: readFileSync(`${root}${file}`, 'utf8'),
}))

test('a field for an amount says what the amount is, not only its unit', () => {
  const nameless = sources.filter(({ source }) => /<AmountField[^>]*\blabel=(?:"USD"|\{t`USD`\})/.test(source))
  expect(nameless.map(({ file }) => file)).toEqual([])
})

test('only the search closes by a click beside it: other dialogs would lose what was typed', () => {
  const closing = sources.filter(({ source }) => /\bcloseOnClickOutside\b/.test(source))
  expect(closing.map(({ file }) => file)).toEqual(['shell/FindPage.tsx'])
})
