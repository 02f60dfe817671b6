import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, it, test } from 'vitest'
import { createTestDatabase } from '../harness/database.ts'
import { readPage, tableRows } from './page.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const page = readPage('ARCHITECTURE.md')

interface TracedFile {
  readonly file: string
  readonly longestFunctionLines: number
}

/** The most files that may run for a request. A stranger reads them in an afternoon. */
const FILES_MAX = { plainChat: 80, streamedMessages: 110 }

describe('the files that run for a request', () => {
  let traced: Record<keyof typeof FILES_MAX, readonly TracedFile[]>
  beforeAll(async () => {
    const database = await createTestDatabase()
    const program = fileURLToPath(new URL('trace-request.ts', import.meta.url))
    const run = promisify(execFile)(process.execPath, [program, JSON.stringify(database.connection)])
    const { stdout } = await run.finally(() => database.drop())
    traced = JSON.parse(stdout)
  })

  it('are few', () => {
    const counts = { plainChat: traced.plainChat.length, streamedMessages: traced.streamedMessages.length }
    expect(counts.plainChat).toBeLessThanOrEqual(FILES_MAX.plainChat)
    expect(counts.streamedMessages).toBeLessThanOrEqual(FILES_MAX.streamedMessages)
  })

  it('are those that ARCHITECTURE.md lists for a plain chat request', () => {
    const listed = tableRows(page, 'file that runs').map(([file]) => `src/${file}`)
    expect(listed.sort()).toEqual(traced.plainChat.map(({ file }) => file).sort())
  })

  it('are not longer than about 400 lines, and no function in them than 80', () => {
    const all = [...traced.plainChat, ...traced.streamedMessages]
    const long = all.filter(({ file, longestFunctionLines }) => longestFunctionLines > 80 || linesOf(file) > 400)
    expect(long).toEqual([])
  })
})

test('the wings and rooms of ARCHITECTURE.md are those that dependency-cruiser holds', () => {
  const rules = readFileSync(join(root, '.dependency-cruiser.cjs'), 'utf8')
  const start = rules.indexOf('const wings = {')
  const table = rules.slice(start, rules.indexOf('\n}\n', start))
  const wings = [...table.matchAll(/^ {2}(\w+): '(.*)',$/gm)].map(
    ([, wing, rooms]) => [wing!, rooms!.split(' ')] as const,
  )
  expect(tableRows(page, 'wing').map(([wing]) => wing)).toEqual(wings.map(([wing]) => `${wing}/`))
  expect(tableRows(page, 'room').map(([room]) => room)).toEqual(
    wings.flatMap(([wing, rooms]) => rooms.map(room => (room === wing ? `${wing}/` : `${wing}/${room}/`))),
  )
})

function linesOf(file: string): number {
  return readFileSync(join(root, file), 'utf8').split('\n').length - 1
}
