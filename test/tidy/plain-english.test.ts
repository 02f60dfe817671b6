import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** Words that made comments and messages hard to read, and what to write instead. */
const plainWords: Readonly<Record<string, string>> = {
  'who|whom|whoever': '"a client that" or "the caller"; `who` is for people',
  whose: '"with", "that has" or two sentences; `whose` is for people',
  told: '"reported" or "notified", or the message itself',
  'dear|dearer|dearest': '"expensive"',
  anew: '"again"',
  'mend|mends|mended|mending': '"fix"',
  'wish|wishes|wished': '"constraint"',
  beside: '"with", "during" or "next to"',
  somebody: '"a customer", "another program" or the one that is meant',
}

/** Places where such a word is right. */
const allowed: readonly { file: RegExp; line: RegExp; reason: string }[] = [
  { file: /^src\/wire\/demo-model\/corpus\.txt$/, line: /./, reason: 'the text that the demo model recites' },
  { file: /^src\/wire\/api\/models\.ts$/, line: /dearest: /, reason: 'a field of GET /v1/models' },
  { file: /^docs\/api\.md$/, line: /`dearest`|"dearest": /, reason: 'a field of GET /v1/models' },
]

/** `who`, `whom` and `whose` after a word for people, also at the start of the next line of a comment. */
const aboutPeople =
  /\b(?:customer|driver|everyone|operator|owner|party|people|person|member|reader|someone|user)s?,?\s+(?:[*/-]+\s+)?who(?:m|se)?\b/gi
/** Whole words only, neither parts of identifiers nor properties. */
const anyWord = new RegExp(`(?<![\\w$.-])(?:${Object.keys(plainWords).join('|')})(?![\\w$-])`, 'gi')

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (file: string) => readFileSync(root + file, 'utf8')
const filesOf = (...paths: string[]) => paths.flatMap(each => globSync(each, { cwd: root }))
const files = filesOf(
  'src/**/*.*',
  'console/src/**/*.*',
  'bin/*',
  'scripts/*.*',
  'sql/**/*.sql',
  'docs/**/*.md',
  'README.md',
)
const tests = filesOf('{test,sim,bench}/**/*.ts', 'bench/README.md').filter(
  file => !file.endsWith('plain-english.test.ts'),
)

/** Returns a line of advice for each word in `text` that is not allowed. */
function advice(file: string, text: string): string[] {
  const lines = text.split('\n')
  // The replacement has the same length and line breaks, so that the line numbers stay right.
  const checked = text.replace(aboutPeople, match => match.replace(/\S/g, ' '))
  return [...checked.matchAll(anyWord)].flatMap(({ 0: word, index }) => {
    const at = text.slice(0, index).split('\n').length
    if (allowed.some(each => each.file.test(file) && each.line.test(lines[at - 1]!))) return []
    const [, instead] = Object.entries(plainWords).find(([words]) => words.split('|').includes(word.toLowerCase()))!
    return [`${file}:${at}: "${word}": write ${instead}`]
  })
}

test('sources, scripts, migrations and documentation use plain words', () => {
  expect(files.length).toBeGreaterThan(400)
  expect(files.flatMap(file => advice(file, read(file)))).toEqual([])
})

test('tests, simulator and benchmarks use plain words too, apart from `whose`', () => {
  const found = tests.flatMap(file => advice(file, read(file)))
  expect(found.filter(each => !/: "(?:whose|dearest)": /.test(each))).toEqual([])
})

test('planted words are found on their lines', () => {
  const planted = [
    '// A server whose answer is late.',
    "const wish = 'Who is told?'",
    '// The operator who starts it, and a user',
    '// who stops it.',
    'const wishes2 = pricing.dearest',
  ]
  expect(advice('src/planted.ts', planted.join('\n'))).toEqual([
    expect.stringMatching(/^src\/planted\.ts:1: "whose": write "with"/),
    expect.stringMatching(/^src\/planted\.ts:2: "wish": write "constraint"/),
    expect.stringMatching(/^src\/planted\.ts:2: "Who": write "a client that"/),
    expect.stringMatching(/^src\/planted\.ts:2: "told": write "reported"/),
  ])
})

test('every exception is still needed', () => {
  const isNeeded = ({ file, line }: (typeof allowed)[number]) =>
    files.some(
      path =>
        file.test(path) &&
        read(path)
          .split('\n')
          .some(text => line.test(text)),
    )
  expect(allowed.filter(each => !isNeeded(each))).toEqual([])
})
