import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readPage } from './page.ts'

// The pages that lead a reader to code. What they name must be there, and be called where they say.

const root = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const functionFiles = globSync('sql/functions/**/*.sql', { cwd: root }).map(read).join('\n')
const sources = globSync('src/**/*.ts', { cwd: root })
  .filter(file => !file.endsWith('.test.ts'))
  .map(read)
  .join('\n')

describe.each(['ARCHITECTURE.md', 'docs/lifecycle.md', 'docs/money.md'])('%s', page => {
  const text = readPage(page)
  const linked = (link: string) => join(dirname(page), link.split('#')[0]!)

  it('names files that exist', () => {
    const named = [...text.matchAll(/`((?:[\w.-]+\/)+[\w.-]+\.(?:tsx?|sql|cjs))`/g)].map(([, file]) => file!)
    expect(named.filter(file => pathOf(file) === null)).toEqual([])
    expect(named.length).toBeGreaterThan(5)
  })

  it('names symbols that stand in the file next to them', () => {
    const inLinks = [...text.matchAll(/`(\w+)` in \[`[^`]+`\]\(([^)]+)\)/g)].map(([, name, link]) => [
      name!,
      linked(link!),
    ])
    const inPaths = [...text.matchAll(/`(\w+)` (?:in|of) `((?:[\w-]+\/)+[\w.-]+\.\w+)`/g)].map(([, name, file]) => [
      name!,
      pathOf(file!)!,
    ])
    const links = [...text.matchAll(/\[`(\w+)`\]\(([^)]+\.(?:ts|tsx|sql))\)/g)].map(([, name, link]) => [
      name!,
      linked(link!),
    ])
    const missing = [...inLinks, ...inPaths, ...links].filter(([name, file]) => !declares(read(file!), name!))
    expect(missing).toEqual([])
  })

  it('names functions that are called where it says', () => {
    const calls = [...text.matchAll(/`(\w+)`, called by `(\w+)` in \[`[^`]+`\]\(([^)]+)\)/g)]
    const wrong = calls.filter(([, called, by, link]) => !callOf(called!).test(bodyOf(read(linked(link!)), by!)))
    expect(wrong.map(([claim]) => claim)).toEqual([])
    if (page === 'ARCHITECTURE.md') expect(calls.length).toBeGreaterThanOrEqual(4)
  })

  it('names SQL functions that exist and are called', () => {
    const names = new Set(
      [...text.matchAll(/(?<![\w.])([a-z]+(?:_[a-z]+)+)\(\)|\[?`([a-z]+(?:_[a-z]+)+)`\]?\([^)]*\.sql\)/g)].map(
        ([, plain, link]) => plain ?? link!,
      ),
    )
    // Operators run some by hand, with a SELECT that the page shows.
    const called = (name: string) => callsOf(name, `${functionFiles}\n${sources}`) || text.includes(`SELECT ${name}(`)
    const unknown = [...names].filter(name => !declares(functionFiles, name) || !called(name))
    expect(unknown).toEqual([])
  })
})

it('a claim that is not true is found', () => {
  const source =
    'export function bill(a: number) {\n  return count(a)\n}\n\nfunction count(a: number) {\n  return a\n}\n'
  expect(declares(source, 'count')).toBe(true)
  expect(declares(source, 'measure')).toBe(false)
  expect(callOf('count').test(bodyOf(source, 'bill'))).toBe(true)
  expect(callOf('bill').test(bodyOf(source, 'count'))).toBe(false)
})

/** A path that a page names, from the root, `src/` or a wing. Null: there is no such file. */
function pathOf(file: string): string | null {
  for (const start of ['', 'src/', 'console/'])
    if (existsSync(join(root, start, file)) && statSync(join(root, start, file)).isFile()) return start + file
  const [match] = globSync(`src/*/${file}`, { cwd: root })
  return match ?? null
}

function declares(source: string, name: string): boolean {
  const typescript = String.raw`^\s*(?:export )?(?:declare )?(?:async )?(?:function\*?|const|let|class|abstract class|interface|type|enum) ${name}\b`
  const sql = String.raw`^CREATE OR REPLACE (?:FUNCTION|VIEW) ${name}\b`
  return new RegExp(`${typescript}|${sql}`, 'm').test(source)
}

const callOf = (name: string) => new RegExp(String.raw`\b${name}\(`)

/** The text of one function: until the brace at the beginning of a line, or the end of the SQL body. */
function bodyOf(source: string, name: string): string {
  const start = source.search(new RegExp(String.raw`(?:function\*?|FUNCTION) ${name}\(`))
  if (start === -1) return ''
  const rest = source.slice(source.indexOf('(', start) + 1)
  const end = rest.search(/^\}|^END \$\$;|\$\$;$/m)
  return end === -1 ? rest : rest.slice(0, end)
}

/** Whether a statement or another function calls an SQL function. */
function callsOf(name: string, text: string): boolean {
  const uses = text.replaceAll(new RegExp(`FUNCTION ${name}\\b`, 'g'), '')
  return new RegExp(String.raw`\b${name}\b`).test(uses)
}
