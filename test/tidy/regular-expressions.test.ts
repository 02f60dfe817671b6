import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseSync } from '@swc/core'
import { expect, test } from 'vitest'
import { findAttack } from './superlinear-pattern.ts'

// Others decide what the patterns of the gateway are matched against: customers, hosters, model servers. A pattern
// that takes quadratic time holds the event loop for seconds at a few hundred kilobytes.

const root = fileURLToPath(new URL('../..', import.meta.url))
const files = globSync('src/**/*.{ts,js}', { cwd: root }).filter(file => !file.endsWith('.test.ts'))

/** Files that may build a pattern inside of a function, with the reason that its time is limited. */
const unchecked: Record<string, string> = {
  'src/http/console/page-list.ts': 'patterns of the addresses of the console: parts without a slash',
  'src/wire/tokens/tokenizer.ts': 'the pattern of a tokenizer, for texts of at most 512 characters',
  'src/wire/dialects/fit/valid-schema.ts': 'the patterns of clients, which are compiled and never matched',
}

interface PatternsOf {
  readonly literals: RegExp[]
  /** How many patterns are built with `RegExp(...)`. */
  readonly built: number
}

function patternsIn(source: string): PatternsOf {
  const literals: RegExp[] = []
  let built = 0
  const visit = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return
    const { type, pattern, flags, callee } = node as Record<string, unknown>
    if (type === 'RegExpLiteral') literals.push(new RegExp(pattern as string, flags as string))
    const isCall = type === 'NewExpression' || type === 'CallExpression'
    if (isCall && (callee as { value?: unknown }).value === 'RegExp') built++
    Object.values(node).forEach(visit)
  }
  visit(parseSync(source, { syntax: 'typescript', target: 'esnext' }))
  return { literals, built }
}

/** Imports the files and returns the patterns that each of them builds meanwhile. */
async function patternsBuiltBy(builders: readonly string[]): Promise<Map<string, ReadonlyMap<string, RegExp>>> {
  const built = new Map(builders.map(file => [file, new Map<string, RegExp>()]))
  const original = globalThis.RegExp
  globalThis.RegExp = new Proxy(original, {
    construct(target, args, newTarget) {
      const pattern = Reflect.construct(target, args, newTarget) as RegExp
      const caller = new Error().stack?.split('\n')[2] ?? ''
      for (const [file, patterns] of built) if (caller.includes(file)) patterns.set(String(pattern), pattern)
      return pattern
    },
  })
  try {
    // The query makes it another module: other tests of this process may have imported the file.
    for (const file of builders) await import(`${pathToFileURL(join(root, file)).href}?patterns`)
  } finally {
    globalThis.RegExp = original
  }
  return built
}

test('no pattern of src takes more than linear time, whatever text it is matched against', async () => {
  const found: object[] = []
  const sources = files.map(file => ({ file, ...patternsIn(readFileSync(join(root, file), 'utf8')) }))
  const builders = sources.filter(({ file, built }) => built > 0 && !Object.hasOwn(unchecked, file))
  const builtBy = await patternsBuiltBy(builders.map(({ file }) => file))
  // A pattern that is built inside of a function cannot be checked here. Build it at the top level.
  expect([...builtBy].map(([file, patterns]) => [file, patterns.size])).toEqual(
    builders.map(({ file, built }) => [file, built]),
  )
  const known = new Set<string>()
  for (const { file, literals } of sources) {
    for (const pattern of [...literals, ...(builtBy.get(file)?.values() ?? [])]) {
      if (known.has(String(pattern))) continue
      known.add(String(pattern))
      const attack = findAttack(pattern)
      if (attack !== null) found.push({ file, pattern: String(pattern), attack })
    }
  }
  expect(found).toEqual([])
  expect(known.size).toBeGreaterThan(100)
})

test.each([
  // The pattern that held the event loop for 8.6 s with `input token count` repeated to 600 KiB.
  /context length|input token count.*exceeds the maximum|maximum prompt length/i,
  /(a+)+$/,
  /^(a|a)*$/,
  /\s+$/,
  /^\s+|\s+$/,
  /(.*)=(.*);/,
  /\b[a-z][a-z0-9+.-]*:\/\/[^\s"'<>)]+/gi,
  /\b[\w-]+(\.[\w-]+)*:\d{2,5}\b/g,
  /\b(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{32,}={0,2}/gi,
  /\$(\$\{)|\$\{([^}]*)\}/g,
])('the search finds that %s is superlinear', pattern => {
  expect(findAttack(pattern)).not.toBeNull()
})

test.each([
  /input token count.{0,200}exceeds the maximum/i,
  /(?<!\s)\s+$/,
  /^(\w+)=(\w+)$/,
  /[\w.-]+(:\d{2,5}\b)?/g,
  /(?<![a-z0-9])\S([^a-z0-9])(?!\1)\S(?:\1(?!\1)\S){6,}(?![a-z0-9])/gi,
])('the search accepts that %s is linear', pattern => {
  expect(findAttack(pattern)).toBeNull()
})
