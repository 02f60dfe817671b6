import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { type ErrorCode, errorTable } from '../../src/base/domain/errors.ts'
import { generationEndpoint } from '../../src/http/endpoints/generation-endpoint.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { readPage, tableRows } from './page.ts'

const src = fileURLToPath(new URL('../../src/', import.meta.url))
const page = readPage('docs/lifecycle.md')
const exits = tableRows(page, 'step').map(([, status, code, file]) => ({
  status,
  code: code as ErrorCode,
  file: file!,
}))

test('every file that is named exists', () => {
  const named = [...page.matchAll(/(?<![\w/.])[a-z-]+(?:\/[a-z-]+)+\.ts/g)].map(([file]) => file)
  expect(named.length).toBeGreaterThan(40)
  // The drawing has no room for wings.
  const wings = ['', 'request/', 'wire/', 'money/', 'identity/']
  expect(named.filter(file => !wings.some(wing => existsSync(`${src}${wing}${file}`)))).toEqual([])
})

test.each(exits)('$status $code comes from $file', ({ status, code, file }) => {
  expect(readFileSync(`${src}${file}`, 'utf8')).toContain(`'${code}'`)
  if (status !== 'error event') expect(errorTable[code].status).toBe(Number(status))
})

test('every error that a generation request can get is listed', () => {
  const { errors = [] } = generationEndpoint(undefined as never, chatDialect).doc
  const listed = new Set(exits.map(({ code }) => code))
  expect(errors.filter(code => !listed.has(code))).toEqual([])
})
