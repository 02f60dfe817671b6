import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { readFile, readSources, translatedLanguages, translationsOf, withTexts } from '../../console/catalogs.ts'
import { i18n } from '../../console/src/texts/i18n.ts'
import { actions, actionsOfSql, jobs, sentences } from '../../console/texts-of-codes.ts'
import { compiled } from '../../console/texts-plugin.ts'
import { ruleSentences } from '../../src/base/domain/field-sentences.ts'
import { sentencesIn } from '../../src/base/domain/said.ts'
import { timetable } from '../../src/jobs/create-tasks.ts'
import { lowerRankReasons } from '../../src/wire/api/activity.ts'
import { unmarkedTexts } from './unmarked-texts.ts'

const REPAIR = 'Run `npm run texts`, then write the translations that it has left empty.'

test('each file of texts has exactly the texts of the sources, all translated', async () => {
  const texts = await readSources()
  expect(texts.length).toBeGreaterThan(1_000)
  const languages = translatedLanguages()
  expect(languages).toContain('zh-Hans')
  for (const language of languages) {
    const content = readFile(language)
    const translations = translationsOf(language, content)
    const missing = texts.filter(({ id }) => translations[id] === undefined).map(({ message }) => message)
    expect(missing, `texts that ${language}.po lacks. ${REPAIR}`).toEqual([])
    const used = new Set(texts.map(({ id }) => id))
    const unused = Object.keys(translations).filter(id => !used.has(id))
    expect(unused, `texts of ${language}.po that no source uses. ${REPAIR}`).toEqual([])
    const empty = texts.filter(({ id }) => translations[id]?.translation === '').map(({ message }) => message)
    expect(empty, `texts of ${language}.po without a translation. ${REPAIR}`).toEqual([])
    expect(await withTexts(language, content, texts), `${language}.po is not as \`npm run texts\` writes it.`).toBe(
      content,
    )
  }
})

test('a translation has the placeholders and elements of its text', async () => {
  const texts = await readSources()
  for (const language of translatedLanguages()) {
    const translations = translationsOf(language, readFile(language))
    const wrong = texts.filter(
      ({ id, message }) => String(parts(message)) !== String(parts(translations[id]?.translation ?? '')),
    )
    expect(
      wrong.map(({ message }) => message),
      `placeholders or tags differ in ${language}.po`,
    ).toEqual([])
  }
})

test('the console has no text that cannot be translated', () => {
  const root = fileURLToPath(new URL('../../console/src/', import.meta.url))
  const found = globSync('**/*.{ts,tsx}', { cwd: root })
    .sort()
    .flatMap(file => unmarkedTexts(file, readFileSync(`${root}${file}`, 'utf8')))
  expect(found, 'Mark these with `t` or `<Trans>`; see CONTRIBUTING.md.').toEqual([])
})

test("customers read no words of the gateway's inside", async () => {
  const jargon =
    /\b(drawn|written off|not served|nodes?|ledger|leases?|settled|ejected|held back|hash|upstream|superseded)\b/i
  const pages =
    /^src\/(?:features\/(?:activity|credits|home|keys|models|outside|playground|settings|status|usage)|parts)\//
  const texts = await readSources()
  const found = texts.filter(({ message, files }) => jargon.test(message) && files.some(file => pages.test(file)))
  expect(found.map(({ message, files }) => `${files[0]}: ${message}`)).toEqual([])
  // Codes that have no words of their own are shown as they are.
  const codes = new Set(texts.filter(({ files }) => files.includes('texts-of-codes.ts')).map(({ message }) => message))
  expect([...lowerRankReasons].filter(reason => codes.has(reason.replaceAll('_', ' ')))).toEqual([])
})

test('texts outside of the macros are found', () => {
  const source = [
    'const a = <p>Some text</p>',
    "const b = <Panel title='A title'>{isOn ? 'on now' : t`off`}</Panel>",
    "const c = { label: 'Word', kind: 'word', done: `It is gone.` }",
    'const d = <Trans>Some <b>marked</b> text, {count} USD</Trans>',
    "const e = [t`Marked`, plural(count, { one: '# text', other: '# texts' }), '40 kB', <>{count} USD</>]",
  ].join('\n')
  expect(unmarkedTexts('a.tsx', source)).toEqual([
    'a.tsx:1: Some text',
    'a.tsx:2: A title',
    'a.tsx:2: on now',
    'a.tsx:3: Word',
    'a.tsx:3: It is gone.',
  ])
})

test('a message is put together from its values', () => {
  const say = (text: string, values: Record<string, unknown>) => i18n._({ id: '', message: compiled(text), values })
  const text = '{n, plural, =0 {no day} one {# day of {name}} other {# days of {name}}} # {0}'
  expect(say(text, { n: 1, name: 'Ada', 0: '<b>' })).toBe('1 day of Ada # <b>')
  expect(say(text, { n: 1200, name: '{n}', 0: null })).toBe('1,200 days of {n} # ')
  expect(say(text, { n: 0 })).toBe('no day # ')
  expect(() => compiled('{n, number}')).toThrow('knows no number')
})

test('each action of the audit log has words', () => {
  const source = readFileSync(new URL('../../src/base/db/audit-log.ts', import.meta.url), 'utf8')
  const union = /export type AuditAction =\n((?: {2}\| '[\w.]+'\n)+)/.exec(source)![1]!
  const found = [...union.matchAll(/'([\w.]+)'/g)].map(([, action]) => action!)
  expect(actions.toSorted()).toEqual(found.sort())
})

test('so has each action that a function of SQL notes', () => {
  const root = fileURLToPath(new URL('../../sql/functions/', import.meta.url))
  const source = globSync('**/*.sql', { cwd: root })
    .map(file => readFileSync(`${root}${file}`, 'utf8'))
    .join('\n')
  const noted = [...source.matchAll(/'((?!switchyard)[a-z_]+\.[a-z_]+)'/g)].map(([, action]) => action!)
  const all = [...actions, ...actionsOfSql]
  // 'payout.promotion_' is followed by a state.
  expect(noted.filter(action => !all.some(known => known.startsWith(action)))).toEqual([])
  expect(actionsOfSql.filter(action => !noted.some(known => action.startsWith(known)))).toEqual([])
})

test('each job of the timetable has words', () => {
  const scheduled = timetable.map(({ task }) => task)
  expect(scheduled.filter(task => !jobs.includes(task))).toEqual([])
  expect(jobs.filter(job => !scheduled.includes(job))).toEqual([])
})

test('each sentence of the API is said somewhere, and none is said that the console does not know', () => {
  const root = fileURLToPath(new URL('../../src/', import.meta.url))
  const files = globSync('**/*.ts', { cwd: root }).filter(file => !/(?:-sentences|refusals|\.test)\.ts$/.test(file))
  const source = files.map(file => readFileSync(`${root}${file}`, 'utf8')).join('\n')
  // A template such as `trust.${name}.few` says several.
  const calls = [...source.matchAll(/\b(?:say|sayRefusal|sayOfHoster)\(\s*(?:'([^']+)'|`([^`]+)`)/g)]
  const said = calls.map(([, plain, template]) => plain ?? template!)
  const patterns = said.map(
    code =>
      new RegExp(
        `^${code
          .split(/\$\{.*?\}/)
          .map(RegExp.escape)
          .join('[\\w.]+')}$`,
      ),
  )
  // The next test finds rules of fields.
  const codes = Object.keys(sentences).filter(code => !code.startsWith('rule.'))
  expect(codes.length).toBeGreaterThan(100)
  expect(codes.filter(code => !patterns.some(pattern => pattern.test(code)))).toEqual([])
  // Others say what they are, such as parts of a stream.
  expect(said.filter(code => /^[a-z_]+\.[\w.]+$/.test(code) && !codes.includes(code))).toEqual([])
})

test('each rule for what people type has a sentence, and each sentence a rule', () => {
  const root = fileURLToPath(new URL('../../src/wire/api/', import.meta.url))
  const files = globSync('**/*.ts', { cwd: root }).filter(file => !file.endsWith('.test.ts'))
  const written = files.flatMap(file =>
    [
      ...readFileSync(`${root}${file}`, 'utf8').matchAll(
        /(?:\berror:|(?:[tT]ext|textMessage) =|refusedField\(.*?,)\s*(?:'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`)/g,
      ),
    ].map(([, plain, template]) => plain ?? template!.replaceAll(/\$\{.*?\}/g, '9').replaceAll('\\`', '`')),
  )
  // Queries begin with "must", and whole sentences with the name of the field.
  const rules = new Set(written.filter(text => !/^(must|"|\d)/.test(text)))
  const codesOf = (rule: string) => sentencesIn(ruleSentences)(rule).map(({ code }) => code)
  expect([...rules].filter(rule => codesOf(rule).length === 0).sort()).toEqual([...unseenRules].sort())
  const used = new Set([...rules].flatMap(codesOf))
  expect(Object.keys(ruleSentences).filter(code => !used.has(code))).toEqual([])
})

/** For values that no person types: pages send one of a few, or what another program gave them. */
const unseenRules = [
  'HTTP status 500',
  'a path of this server: one slash, then neither a slash nor a backslash',
  'an array of scopes',
  'an array of scopes, each once',
  'an object with fields of 9',
  'approve or refuse',
  'direct or agent',
  'end or keep',
  'null',
  'revoke or hand_over',
  'the id of a service',
  'the query that the service added to the address',
  'the secret of an invitation: the part of its link after #',
  'what the browser returned for a passkey',
]

/** Returns the names of placeholders and the tags of a message, sorted. */
function parts(message: string): string[] {
  const names = new Set<string>()
  const visit = (tokens: unknown): void => {
    if (!Array.isArray(tokens)) return
    for (const token of tokens) {
      if (!Array.isArray(token)) continue
      const [name, , cases] = token as [string, string?, Record<string, unknown>?]
      names.add(`{${name}}`)
      for (const each of Object.values(cases ?? {})) visit(each)
    }
  }
  visit(compiled(message))
  const tags = [...message.matchAll(/<\/?\d+\/?>/g)].map(([tag]) => tag)
  return [...names, ...tags].sort()
}
