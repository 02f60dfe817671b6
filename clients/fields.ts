// Program: writes docs/fields.md, and prints the fields that are new or that the gateway treats otherwise than the page said.
import { readFileSync, writeFileSync } from 'node:fs'
import { fieldsPage } from '../test/docs/field-outcomes.ts'
import { sdkVersion } from '../test/docs/sdk-fields.ts'

const file = new URL('../docs/fields.md', import.meta.url)
const before = new Set(linesOf(readFileSync(file, 'utf8')))
const page = await fieldsPage(sdkVersion)
writeFileSync(file, page)
const changed = linesOf(page).filter(line => !before.has(line))
console.log(changed.length === 0 ? 'docs/fields.md is as it was.' : changed.join('\n'))
const lost = changed.filter(line => line.includes('| lost'))
if (lost.length > 0) {
  console.error('Servers do not get these, and clients do not learn of it: add them to the tables of the dialect.')
  process.exitCode = 1
}

function linesOf(text: string): string[] {
  return text.split('\n').map(line => line.replace(/ +/g, ' '))
}
