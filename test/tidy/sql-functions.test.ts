import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect, test } from 'vitest'

// What a reader of sql/functions may rely on: CONTRIBUTING.md, "SQL". Reads text only, no database.

const root = new URL('../../sql/functions/', import.meta.url)
const files = globSync('**/*.sql', { cwd: root }).map(path => path.replaceAll('\\', '/'))
const sources: Sources = Object.fromEntries(files.map(file => [file, readFileSync(new URL(file, root), 'utf8')]))

const MAX_LINES = 100
const MAX_COMMENT_WIDTH = 130

/** By file, such as `money/locks.sql`. */
type Sources = Readonly<Record<string, string>>

interface SqlFunction {
  readonly file: string
  readonly name: string
  /** The lines of comment right above the function. */
  readonly comment: string
  /** From CREATE to the end of the statement. Bodies are quoted with `$$`. */
  readonly text: string
}

/** Returns a line of advice for each rule that a function or a file breaks. */
function advice(sources: Sources): string[] {
  const functions = Object.entries(sources).flatMap(([file, source]) => functionsOf(file, source))
  const byName = new Map(functions.map(each => [each.name, each]))
  const reach = (each: SqlFunction, own: (code: string) => string[]) =>
    withCalled(each, byName).flatMap(f => own(f.code))
  const found: string[] = []
  for (const each of functions) {
    const say = (message: string) => found.push(`${each.file}: ${each.name} ${message}`)
    const comment = `${each.comment}${familyComment(sources[each.file]!)}`
    if (comment === '') say('has no comment: write what it does, what it locks and what it raises')
    if (byName.get(each.name) !== each) say('is defined twice')
    if (each.text.split('\n').length > MAX_LINES)
      say(`has more than ${MAX_LINES} lines: move a step into its own function`)
    for (const error of new Set(reach(each, errorsOf)))
      if (!comment.includes(error)) say(`raises ${error}, itself or by a call: name it in the comment`)
    if (reach(each, locksOf).length > 0 && !/\block|\bqueue/i.test(comment))
      say('locks, itself or by a call: name what, in which order, in the comment')
  }
  for (const [file, source] of Object.entries(sources)) {
    const held = [...source.matchAll(/^CREATE OR REPLACE (?:FUNCTION|VIEW|TRIGGER) (\w+)/gm)].map(match => match[1]!)
    const described = `${held.join(' ')} ${headOf(source)}`.toLowerCase()
    const missing = wordsOf(file).filter(word => !described.includes(word))
    if (missing.length > 0)
      found.push(`${file}: nothing in it is named "${missing}": rename it, or describe the family at its top`)
    found.push(...misplaced(file, source))
    for (const [index, line] of source.split('\n').entries())
      if (line.trimStart().startsWith('--') && line.length > MAX_COMMENT_WIDTH)
        found.push(`${file}:${index + 1}: the comment is wider than ${MAX_COMMENT_WIDTH} characters`)
  }
  return found
}

/**
 * What does not stand in the order in which a file is read: first the function with its name, then each function above those
 * that it calls. `migrate` checks no bodies, so a function may call what follows. Only a function that wraps another one for
 * operators, such as `refund_as`, stands below it.
 */
function misplaced(file: string, source: string): string[] {
  const own = basename(file, '.sql')
  const functions = functionsOf(file, source)
  const found: string[] = []
  if (functions.findIndex(each => each.name === own) > 0)
    found.push(`${file}: ${own} gives the file its name: put it first, and its helpers below it`)
  for (const [place, { name, text }] of functions.entries())
    for (const helper of functions.slice(0, place))
      if (
        new RegExp(`\\b${helper.name}\\s*\\(`).test(text.replace(/--.*/g, '')) &&
        ![own, name].includes(helper.name) &&
        !/_(?:as|by_operator)$/.test(name)
      )
        found.push(`${file}: ${name} calls ${helper.name}: put it above, so that the file is read from the top down`)
  return found
}

function functionsOf(file: string, source: string): SqlFunction[] {
  const pattern = /^((?:--.*\n)*)(CREATE OR REPLACE FUNCTION (\w+)[^$]*\$\$[\s\S]*?\$\$[^;]*;)/gm
  return [...source.matchAll(pattern)].map(([, comment, text, name]) => ({
    file,
    name: name!,
    comment: comment!,
    text: text!,
  }))
}

/** The comment at the top of a file, before an empty line: it describes the family. */
const headOf = (source: string) => /^(?:--.*\n)+(?=\n)/.exec(source)?.[0] ?? ''

/** The comment at the top of a file that holds for each function in it: it says "All of these". */
const familyComment = (source: string) => (headOf(source).includes('All of these') ? headOf(source) : '')

/** Without the plural, which names of functions do not have. */
const wordsOf = (file: string) =>
  basename(file, '.sql')
    .split('_')
    .map(word => word.replace(/(?<=ch|x)es$|s$/, ''))

/** The function and all that it calls, at any depth, each with its code without comments. */
function withCalled(first: SqlFunction, byName: ReadonlyMap<string, SqlFunction>): { code: string }[] {
  const found = new Map<string, { code: string }>()
  const visit = (each: SqlFunction) => {
    if (found.has(each.name)) return
    const code = each.text.replace(/--.*/g, '')
    found.set(each.name, { code })
    for (const [, called] of code.matchAll(/\b(\w+)\s*\(/g)) if (byName.has(called!)) visit(byName.get(called!)!)
  }
  visit(first)
  return [...found.values()]
}

/** SQLSTATEs and names of conditions. A RAISE without one is `raise_exception`; a bare RAISE passes on what its handler caught. */
function errorsOf(code: string): string[] {
  const raised = [...code.matchAll(/\bRAISE EXCEPTION\b[^;]*;/g)].map(
    ([statement]) => /ERRCODE = '(\w+)'/.exec(statement)?.[1] ?? 'raise_exception',
  )
  const caught = /\bRAISE;/.test(code)
    ? [...code.matchAll(/\bWHEN (\w+(?: OR \w+)*) THEN\s+IF\b[\s\S]*?\bRAISE;/g)]
    : []
  return [...raised, ...caught.flatMap(match => match[1]!.split(' OR '))]
}

const locksOf = (code: string): string[] => [
  ...(code.match(/\bFOR (?:NO KEY )?UPDATE\b|\bFOR (?:KEY )?SHARE\b|\bpg_advisory(?:_xact)?_lock|\bLOCK TABLE\b/g) ??
    []),
]

test('each SQL function says what it does, locks and raises, and stands in a file with its name', () => {
  expect(Object.keys(sources).length).toBeGreaterThan(30)
  const functions = Object.entries(sources).flatMap(([file, source]) => functionsOf(file, source))
  expect(functions.length).toBe(
    Object.values(sources)
      .join('')
      .match(/CREATE OR REPLACE FUNCTION/g)!.length,
  )
  expect(advice(sources)).toEqual([])
})

const planted = (name: string, body: string) =>
  `CREATE OR REPLACE FUNCTION ${name}() RETURNS void\nLANGUAGE plpgsql AS $$\nBEGIN\n${body}\nEND $$;\n`
const good = `-- Locks the balances in the order of customer_id. Raises SY001 without any.
${planted('lock_all', "PERFORM FROM balance FOR NO KEY UPDATE; RAISE EXCEPTION 'none' USING ERRCODE = 'SY001';")}`

test.each([
  ['nothing', good, []],
  ['no comment', good + planted('lock_none', 'RETURN;'), ['lock_none has no comment']],
  [
    'a comment that is not right above',
    `${good}\n-- Does nothing.\n\n${planted('lock_none', 'RETURN;')}`,
    ['lock_none has no comment'],
  ],
  [
    'a call that locks and raises',
    `-- Does all.\n${planted('do_all', 'PERFORM lock_all();')}${good}`,
    ['do_all raises SY001', 'do_all locks'],
  ],
  ['a lock by number', `-- Does a lot.\n${planted('locks', 'PERFORM pg_advisory_xact_lock(1);')}`, ['locks locks']],
  ['a lock of a table', `-- Does a lot.\n${planted('locks', 'LOCK TABLE balance IN SHARE MODE;')}`, ['locks locks']],
  ['a lock in a comment', `-- Does a lot.\n${planted('locks', '-- FOR UPDATE\nRETURN;')}`, []],
  [
    'an error without a code',
    `-- Fails.\n${planted('locks', "RAISE EXCEPTION 'no';")}`,
    ['locks raises raise_exception'],
  ],
  [
    'an error that is passed on',
    `-- Fails.\n${planted('locks', 'EXCEPTION WHEN lock_not_available OR deadlock_detected THEN\n  IF a THEN\n RAISE;\n END IF;')}`,
    ['locks raises lock_not_available', 'locks raises deadlock_detected'],
  ],
  ['a second definition', good + good, ['lock_all is defined twice']],
  [
    'a long function',
    `-- Does a lot.\n${planted('locks', 'PERFORM 1;\n'.repeat(96))}`,
    ['locks has more than 100 lines'],
  ],
  ['another file name', good.replaceAll('lock_all', 'take_all'), ['nothing in it is named "lock"']],
  ['a wide comment', `-- ${'wide '.repeat(30)}\n${good}`, ['the comment is wider']],
  [
    'a helper above its caller',
    `-- Locks one.\n${planted('lock_one', 'PERFORM FROM balance FOR UPDATE;')}-- Locks two.\n${planted('lock_two', 'PERFORM lock_one();')}`,
    ['lock_two calls lock_one: put it above'],
  ],
  [
    'a wrapper for operators below what it wraps',
    `-- Locks one.\n${planted('lock_one', 'PERFORM FROM balance FOR UPDATE;')}-- Locks one.\n${planted('lock_one_as', 'PERFORM lock_one();')}`,
    [],
  ],
  [
    'the function with the name of the file below another one',
    `-- Locks.\n${planted('lock_all', 'PERFORM locks();')}-- Locks.\n${planted('locks', 'PERFORM FROM balance FOR UPDATE;')}`,
    ['locks gives the file its name: put it first'],
  ],
  [
    'a family that is described at the top',
    `-- Locks. All of these lock what lock_all locks and raise SY001.\n\n${planted('take_all', 'PERFORM lock_all();')}\n${good}`,
    [],
  ],
])('planted: %s', (_, source, expected) => {
  const found = advice({ 'money/locks.sql': source })
  expect(found).toEqual(expected.map(each => expect.stringContaining(each)))
})
