import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
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

/** Vocabulary and primitives, which every file uses. */
const isVocabulary = (file: string) => /^src\/base\/(domain|runtime)\//.test(file)

describe('a plain request', () => {
  let traced: TracedFile[]
  beforeAll(async () => {
    const database = await createTestDatabase()
    const program = fileURLToPath(new URL('trace-request.ts', import.meta.url))
    const run = promisify(execFile)(process.execPath, [program, JSON.stringify(database.connection)])
    const { stdout } = await run.finally(() => database.drop())
    traced = (JSON.parse(stdout) as TracedFile[]).filter(({ file }) => !isVocabulary(file))
  })

  it('crosses the files that ARCHITECTURE.md lists, at most 30', () => {
    // A file is crossed when it runs and calls another file that runs. The others are leaves: they compute something and return.
    const ran = new Set(traced.map(({ file }) => file))
    const crossed = [...ran].filter(file => importsOf(file).some(imported => ran.has(imported)))
    const listed = tableRows(page, 'crossed file').map(([file]) => `src/${file}`)
    expect(crossed.sort()).toEqual(listed.sort())
    expect(listed.length).toBeLessThanOrEqual(30)
  })

  it('runs no file above 400 lines and no function above 80', () => {
    const long = traced.filter(({ file, longestFunctionLines }) => longestFunctionLines > 80 || linesOf(file) > 400)
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

/** The files whose code a file imports, types not counted. */
function importsOf(file: string): string[] {
  const source = readFileSync(join(root, file), 'utf8')
  return [...source.matchAll(/^import (?!type\b)([^'"]*?) from '(\.[^']+)'/gm)]
    .filter(([, names]) => !/^\{(\s*type [^,}]+,?)+\s*\}$/.test(names!))
    .map(([, , path]) => normalize(join(dirname(file), path!)))
}
